# SPDX-License-Identifier: Apache-2.0
"""Commands about recorded traces and policies."""
