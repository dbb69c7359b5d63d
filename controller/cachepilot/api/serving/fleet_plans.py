# SPDX-License-Identifier: Apache-2.0
"""Plans of the whole fleet, each computed once for all clients, and one of them at a time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from cachepilot.api.serving.shared_answer import SharedAnswer
from cachepilot.api.shapes.questions import Consolidation, Spread


class FleetPlans:
    """The answers of `consolidation` and `spread`; `version` counts what operators asked for."""

    def __init__(
        self,
        consolidation: Callable[[], Consolidation],
        spread: Callable[[], Spread],
        version: Callable[[], int],
    ) -> None:
        # The dashboard asks for both. Planned at the same time, they would leave agents less CPU.
        self._executor = ThreadPoolExecutor(1, "fleet-plans")
        self.consolidation = SharedAnswer(consolidation, version, executor=self._executor)
        self.spread = SharedAnswer(spread, version, executor=self._executor)

    def close(self) -> None:
        """Compute nothing more; a running computation ends normally."""
        self._executor.shutdown(wait=False, cancel_futures=True)
