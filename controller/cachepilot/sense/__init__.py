# SPDX-License-Identifier: Apache-2.0
"""From a snapshot of the wire to what the other steps work with."""
