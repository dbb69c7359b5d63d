# SPDX-License-Identifier: Apache-2.0
"""What a node's cycles leave for readers: reports, SLO windows, changes and comparisons."""
