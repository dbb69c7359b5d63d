# SPDX-License-Identifier: Apache-2.0
"""What operators ask of all nodes (objectives and pins), and what of that applies to one node."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Pin, with_pins
from cachepilot.sense.conditions import workloads_of
from cachepilot.v1 import session_pb2 as wire


@dataclass(frozen=True)
class Asked:
    """The objectives and pins of all nodes at one time."""

    objectives: Objectives
    pins: tuple[Pin, ...] = ()


class AskedOfNode:
    """What is asked of one node. It returns the same objects until something else is asked."""

    def __init__(self, node: str, asked: Callable[[], Asked]) -> None:
        self._node, self._asked = node, asked
        self._with_pins = (Asked(Objectives()), Objectives())
        self._among = (Asked(Objectives()), Asked(Objectives()))

    def among(self, tenants: Iterable[wire.Tenant]) -> Asked:
        """What is asked, with objectives for Kubernetes workloads applied to these tenants."""
        stated, asked = self._among
        now = self._asked()
        base = now.objectives if now is not stated else asked.objectives
        objectives = base.among(workloads_of(tenants))
        if now is not stated or objectives is not asked.objectives:
            asked = now if objectives is now.objectives else replace(now, objectives=objectives)
            self._among = now, asked
        return asked

    def with_pins(self, asked: Asked) -> Objectives:
        """Objectives with the pins that apply to this node."""
        if asked is not self._with_pins[0]:
            self._with_pins = asked, with_pins(asked.objectives, asked.pins, self._node)
        return self._with_pins[1]
