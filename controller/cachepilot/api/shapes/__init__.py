# SPDX-License-Identifier: Apache-2.0
"""JSON objects of the HTTP interface."""
