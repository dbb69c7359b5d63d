# SPDX-License-Identifier: Apache-2.0
"""The least memory of every tenant, and the nodes whose tenants fit on other nodes."""
