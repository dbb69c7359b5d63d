# SPDX-License-Identifier: Apache-2.0
"""A consolidation in the forms of programs that carry it out; nothing here changes anything."""
