# SPDX-License-Identifier: Apache-2.0
"""HTTP machinery between a request and its answer: access, bounds, events, the page."""
