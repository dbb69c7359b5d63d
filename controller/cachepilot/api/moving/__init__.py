# SPDX-License-Identifier: Apache-2.0
"""A consolidation that is carried out, over HTTP."""
