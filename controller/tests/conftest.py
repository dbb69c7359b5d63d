# SPDX-License-Identifier: Apache-2.0
"""Settings that every test of the Python package shares."""

from hypothesis import settings

settings.register_profile("cachepilot", deadline=None)
settings.load_profile("cachepilot")
