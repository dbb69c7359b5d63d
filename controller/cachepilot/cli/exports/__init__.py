# SPDX-License-Identifier: Apache-2.0
"""A consolidation in the forms of programs that execute it; these modules change nothing."""
