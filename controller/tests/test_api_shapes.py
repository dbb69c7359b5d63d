# SPDX-License-Identifier: Apache-2.0
"""A JSON shape has exactly the keys of the value that it is made from."""

from dataclasses import dataclass, fields

import pytest
from pydantic import ValidationError

from cachepilot.api.shapes.questions import (
    Consolidation,
    Drain,
    LeastMemory,
    Move,
    Pin,
    Spread,
    WhatIf,
    WhatIfAnswer,
    WhatIfTenant,
)
from cachepilot.api.shapes.series import LatencyView
from cachepilot.api.shapes.shape import Shape
from cachepilot.api.shapes.views import DecisionView, SloView, TrialView
from cachepilot.domain import consolidation, what_if
from cachepilot.domain.objectives import pins
from cachepilot.domain.past.series import Latency
from cachepilot.domain.recorded import RecordedDecision, RunningTrial
from cachepilot.domain.slos import SloStatus

PAIRS: list[tuple[type[Shape], type, set[str]]] = [
    (LatencyView, Latency, set()),
    (Consolidation, consolidation.Consolidation, set()),
    (LeastMemory, consolidation.LeastMemory, set()),
    (Drain, consolidation.Drain, set()),
    (Move, consolidation.Move, set()),
    (Spread, consolidation.Spread, set()),
    (Pin, pins.Pin, set()),
    (WhatIf, what_if.WhatIf, set()),
    (WhatIfAnswer, what_if.WhatIfAnswer, set()),
    (WhatIfTenant, what_if.WhatIfTenant, set()),
    (DecisionView, RecordedDecision, {"in_force"}),
    (SloView, SloStatus, {"verdict"}),
    (TrialView, RunningTrial, set()),
]
OF_THE_CONTROLLER: dict[type, set[str]] = {pins.Pin: {"rollout"}}
"""Keys that no user states."""


@pytest.mark.parametrize(("shape", "value", "added"), PAIRS)
def test_a_shape_has_the_keys_of_its_value(
    shape: type[Shape], value: type, added: set[str]
) -> None:
    told = {one.name for one in fields(value)} - OF_THE_CONTROLLER.get(value, set())
    assert set(shape.model_fields) == told | added


def test_a_shape_is_made_of_nested_values() -> None:
    slo = SloStatus("hit_ratio", 0.9, 0.8, None, None, None, "kept", False, None, "why")
    row = what_if.WhatIfTenant("/a", "lru", 4096, 0.2, 10.0, "lfu", 8192, 0.1, 20.0, [slo])
    answer = WhatIfAnswer.of(what_if.WhatIfAnswer("n", [row], 0, 0.5, ["note"]))
    assert answer.tenants[0].slos[0] == SloView.of_checked(**vars(slo), verdict="missed")
    assert answer.model_dump()["tenants"][0]["slos"][0]["target"] == 0.9


def test_a_value_without_a_key_of_its_shape_is_refused() -> None:
    @dataclass
    class Half:
        cgroup: str = "/a"

    with pytest.raises(ValidationError, match="started_s"):
        TrialView.of(Half())
