# SPDX-License-Identifier: Apache-2.0
"""The controller's HTTP interface, used by the command line, the dashboard and scripts alike."""
