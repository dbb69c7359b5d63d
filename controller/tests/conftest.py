# SPDX-License-Identifier: Apache-2.0
"""Settings that all tests of the Python package share."""

from hypothesis import settings

settings.register_profile("cachepilot", deadline=None)
settings.load_profile("cachepilot")
