# SPDX-License-Identifier: Apache-2.0
"""From snapshots on the wire to the values that the other steps work with."""
