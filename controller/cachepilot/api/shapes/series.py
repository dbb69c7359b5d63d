# SPDX-License-Identifier: Apache-2.0
"""The time series of one tenant over a range of time: columns of one length, oldest first."""

from cachepilot.api.shapes.courses import Columns


class SeriesView(Columns):
    """A range of time, from the store."""

    since_s: float
    until_s: float
    step_s: float
    """Each point is a mean over so many seconds."""
