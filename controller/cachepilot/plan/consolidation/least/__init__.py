# SPDX-License-Identifier: Apache-2.0
"""What tenants need at least on a device, and a table of that over how long its reads wait."""
