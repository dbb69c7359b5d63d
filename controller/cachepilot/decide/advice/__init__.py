# SPDX-License-Identifier: Apache-2.0
"""When a recommendation to an operator is replaced by another."""
