# SPDX-License-Identifier: Apache-2.0
"""The least needs of tenants on a device, and a table of them over the wait of its reads."""
