# SPDX-License-Identifier: Apache-2.0
"""The least memory of every tenant, and which nodes the others can take over."""
