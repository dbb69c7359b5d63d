# SPDX-License-Identifier: Apache-2.0
"""Models of how tenants respond to a setting: throughput, calibration of predictions, savings."""
