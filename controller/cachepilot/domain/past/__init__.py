# SPDX-License-Identifier: Apache-2.0
"""The past: changes and who made them, and measurements from before and since."""
