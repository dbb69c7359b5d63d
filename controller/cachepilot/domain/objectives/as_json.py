# SPDX-License-Identifier: Apache-2.0
"""Objectives as one line of JSON, as they are stored."""

import json

from cachepilot.domain.json_values import UNREADABLE, RecordError, decode, encode
from cachepilot.domain.objectives.objective import Objectives


def objectives_to_json(objectives: Objectives) -> str:
    """Objectives as one line of JSON."""
    return encode(objectives)


def objectives_from_json(text: str, name: str) -> Objectives:
    """Reads what `objectives_to_json` wrote; raises RecordError naming `name`."""
    try:
        objectives: Objectives = decode(Objectives, json.loads(text))
    except UNREADABLE as error:
        raise RecordError(f"{name}: not objectives: {error}") from None
    return objectives
