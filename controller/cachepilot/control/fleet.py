# SPDX-License-Identifier: Apache-2.0
"""All nodes, and what is asked of them."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace

from cachepilot.api.changes import Changes, Topic
from cachepilot.api.shapes import Pin
from cachepilot.control.collect import Scraped
from cachepilot.control.config import ControllerConfig
from cachepilot.control.loop import Asked, NodeLoop
from cachepilot.control.store import NodeRow, Store
from cachepilot.errors import InputError
from cachepilot.planner.objectives import Objectives
from cachepilot.planner.objectives_file import read_objectives

NODES_MAX = 10_000


class FleetError(InputError):
    """A node that cannot join; says why."""


class Fleet:
    """Nodes by name, from the store and from sessions. Objectives and pins hold for all."""

    def __init__(self, config: ControllerConfig, store: Store, scraped: Scraped) -> None:
        self.config, self.store = config, store
        self._scraped = scraped
        self.changes = Changes()
        self._lock = threading.Lock()
        stored = store.objectives()
        if stored is None:
            path = config.objectives
            stored = Objectives() if path is None else read_objectives(path)
            store.set_objectives(stored)
        self._asked = Asked(stored)
        self._take_pins()
        self._loops = {row.name: self._loop(row) for row in store.nodes()}

    def _loop(self, row: NodeRow) -> NodeLoop:
        return NodeLoop(row, self.config, self.store, self.asked, self._scraped, self.changes)

    def asked(self) -> Asked:
        """What is asked now; a pin whose time is over is gone."""
        if self.store.now_s() >= self._pin_ends_s:
            self._end_pins()
        return self._asked

    def _end_pins(self) -> None:
        with self._lock:
            now_s = self.store.now_s()
            for pin in self._asked.pins:
                if pin.until_s is not None and pin.until_s <= now_s:
                    self.store.delete_pin(pin.cgroup, pin.node)
            self._take_pins()
        self.changes.tell(Topic.ASKED)

    def _take_pins(self) -> None:
        pins = tuple(self.store.pins())
        ends_s = (pin.until_s for pin in pins if pin.until_s is not None)
        self._pin_ends_s = min(ends_s, default=math.inf)
        self._asked = replace(self._asked, pins=pins)

    def loops(self) -> dict[str, NodeLoop]:
        """Every node that was ever seen, by name."""
        return dict(sorted(self._loops.items()))

    def join(self, name: str) -> NodeLoop:
        """The loop of a node, made when it is new; FleetError when there are too many."""
        with self._lock:
            found = self._loops.get(name)
            if found is None:
                if len(self._loops) >= NODES_MAX:
                    raise FleetError(f"node {name}: too many nodes (allowed: {NODES_MAX})")
                found = self._loops[name] = self._loop(NodeRow(name, 0, None, 0.0, None))
            return found

    def change_objectives(self, change: Callable[[Objectives], Objectives]) -> None:
        """Replaces the objectives by what `change` makes of them; stored before this returns."""
        with self._lock:
            changed = change(self._asked.objectives)
            self.store.set_objectives(changed)
            self._asked = replace(self._asked, objectives=changed)
        self.changes.tell(Topic.ASKED)

    def set_pin(self, pin: Pin) -> None:
        """Adds a pin, or adds to that of the same cgroup and node; stored before this returns.

        One for good replaces one that ends, also those on single nodes when it is for all nodes:
        they would hide it. InputError for one that ends beside one for good, which it would end.
        """
        with self._lock:
            for earlier in self._asked.pins if pin.until_s is not None else ():
                same = earlier.cgroup == pin.cgroup and earlier.node in (None, pin.node)
                if same and earlier.until_s is None:
                    raise InputError(f"pin {pin.cgroup}: until_s: it is pinned: unpin it first")
            for earlier in self._asked.pins:
                is_revert = earlier.cgroup == pin.cgroup and earlier.until_s is not None
                if is_revert and pin.node is None and pin.until_s is None:
                    self.store.delete_pin(earlier.cgroup, earlier.node)
                    continue
                replaces = earlier.until_s is not None and pin.until_s is None
                if (earlier.cgroup, earlier.node) == (pin.cgroup, pin.node) and not replaces:
                    more = pin.model_dump(exclude_none=True)
                    pin = earlier.model_copy(update={**more, "until_s": pin.until_s})
            self.store.set_pin(pin)
            self._take_pins()
        self.changes.tell(Topic.ASKED)

    def delete_pin(self, cgroup: str, node: str | None) -> bool:
        """Removes a pin; False when there was none."""
        with self._lock:
            removed = self.store.delete_pin(cgroup, node)
            self._take_pins()
        self.changes.tell(Topic.ASKED)
        return removed
