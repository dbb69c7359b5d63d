# SPDX-License-Identifier: Apache-2.0
"""The controller's HTTP interface: the same for the command line, dashboards and scripts."""
