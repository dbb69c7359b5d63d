# SPDX-License-Identifier: Apache-2.0
"""What stands between a request and its answer: access, bounds, events, the page."""
