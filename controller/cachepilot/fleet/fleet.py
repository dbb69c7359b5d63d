# SPDX-License-Identifier: Apache-2.0
"""All nodes, and what is asked of them."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cachepilot.domain.objectives.file import read_objectives
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Before, Pin, beside
from cachepilot.domain.past.actor import CONTROLLER, acting
from cachepilot.domain.units import DAY_S
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.audit import stated as audit
from cachepilot.fleet.audit.refusals import Refusals
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.rivals import Rivals
from cachepilot.node.asked import Asked
from cachepilot.node.loop import NodeLoop
from cachepilot.node.shown.changes import Changes, Topic
from cachepilot.node.timing import forget_node
from cachepilot.sense.node_scrape import Scraped
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.journal import NodeRow
from cachepilot.store.store import Store

LOG = logging.getLogger(__name__)
NODES_MAX = 10_000
WHAT_MAX = 4
"""So many parts of a change are named where it can be undone."""


class FleetError(InputError):
    """A node that cannot join; says why."""


class Fleet:
    """Nodes by name, from the store and from sessions. Objectives and pins hold for all."""

    def __init__(self, config: ControllerConfig, store: Store, scraped: Scraped) -> None:
        self.config, self.store = config, store
        self._scraped = scraped
        self.changes = Changes()
        self.rivals = Rivals(self.changes)
        self.refusals = Refusals(store, store.now_s)
        self._lock = threading.Lock()
        stored = store.objectives()
        if stored is None:
            path = config.objectives
            stored = Objectives() if path is None else read_objectives(path)
            store.set_objectives(stored)
        self._asked = Asked(stored)
        # One that ended while no controller ran ends with the first look, and is told like any.
        self._pin_ends_s = math.inf
        self._undeleted = frozenset[Pin]()
        """Pins that rollouts gave up, and that are still stored."""
        self._take_pins(with_ended=True)
        self._loops = {row.name: self._loop(row) for row in store.nodes()}

    def _loop(self, row: NodeRow) -> NodeLoop:
        return NodeLoop(row, self.config, self.store, self.asked, self._scraped, self.changes)

    def asked(self) -> Asked:
        """What is asked now; a pin whose time is over is gone.

        Never waits for what an operator changes at the time: then the next call ends the pin.
        """
        if self.store.now_s() >= self._pin_ends_s and self._lock.acquire(blocking=False):
            try:
                self._end_pins()
            finally:
                self._lock.release()
            self.changes.tell(Topic.ASKED)
        return self._asked

    def _end_pins(self) -> None:
        before = self._asked
        for pin in self.store.pins():
            if self._is_over(pin):
                self._delete_ended(pin)
        self._take_pins()
        rows = audit.audit(before, self._asked, CONTROLLER, self.store.now_s())
        for row in rows:
            row.why = "its time is over"
        audit.log(rows)
        try:
            self.store.save_changes([(row, None) for row in rows])
        except StoreFailedError as error:
            LOG.error("pins that are over are missing from the history: %s", error)

    @contextmanager
    def _audited(self, can_undo: bool = True) -> Iterator[list[Before]]:
        """What is changed inside is stored with who changed it, or not at all.

        What was stated before is kept, too, so that a person can undo it, and is in the list then.
        """
        if self.store.now_s() >= self._pin_ends_s:
            # What is over by then is nobody's change.
            self._end_pins()
        before, ends_s = self._asked, self._pin_ends_s
        kept: list[Before] = []
        try:
            with self.store.together():
                yield kept
                rows = audit.audit(before, self._asked, acting(), self.store.now_s())
                self.store.save_changes([(row, None) for row in rows])
                if rows and can_undo:
                    what = "; ".join(
                        f"{row.kind} {row.cgroup}: {row.text}" for row in rows[:WHAT_MAX]
                    )
                    more = len(rows) - WHAT_MAX
                    what += f"; and {more} more" if more > 0 else ""
                    kept.append(self.store.remember(before.objectives, before.pins, what))
        except BaseException:
            self._asked, self._pin_ends_s = before, ends_s
            raise
        audit.log(rows)
        if rows:
            self.changes.tell(Topic.DECISIONS)

    def _delete_ended(self, pin: Pin) -> None:
        """It is over whether or not the store can be written; the next that ends tries again."""
        try:
            self.store.delete_pin(pin.cgroup, pin.node)
        except StoreFailedError as error:
            LOG.error("pin %s: it is over, and cannot be deleted: %s", pin.cgroup, error)

    def _is_over(self, pin: Pin) -> bool:
        return pin.until_s is not None and pin.until_s <= self.store.now_s()

    def _take_pins(self, with_ended: bool = False) -> None:
        pins = tuple(
            pin
            for pin in self.store.pins()
            if (with_ended or not self._is_over(pin)) and pin not in self._undeleted
        )
        ends_s = (pin.until_s for pin in pins if pin.until_s is not None)
        self._pin_ends_s = min(ends_s, default=math.inf)
        self._asked = replace(self._asked, pins=pins)

    def loops(self) -> dict[str, NodeLoop]:
        """Every node that was seen and is not forgotten, by name."""
        # A copy first, at once: sessions on other threads add nodes.
        return dict(sorted(self._loops.copy().items()))

    def join(self, name: str) -> NodeLoop:
        """The loop of a node, made when it is new; FleetError when there are too many.

        A new one takes the place of the one that was silent for longest, if that was for more than
        `keep_days`: its history has been dropped by then.
        """
        with self._lock:
            found = self._loops.get(name)
            if found is None:
                if len(self._loops) >= NODES_MAX:
                    self._make_room(name)
                found = self._loops[name] = self._loop(NodeRow(name, 0, None, 0.0, None))
            # Until it says something it is not forgotten again.
            found.heard_s = self.store.now_s()
            return found

    def _make_room(self, name: str) -> None:
        days = self.config.keep_days
        silent = (one for one in self._loops.values() if not one.connected)
        oldest = min(silent, key=lambda one: one.heard_s, default=None)
        if oldest is None or self.store.now_s() - oldest.heard_s <= days * DAY_S:
            raise FleetError(
                f"node {name}: too many nodes (allowed: {NODES_MAX}; one that is silent for more"
                f" than {days:g} days makes room)"
            )
        self.store.forget(oldest.name)
        del self._loops[oldest.name]
        forget_node(oldest.name)
        LOG.info("node %s: forgotten, for node %s", oldest.name, name)

    def change_objectives(self, change: Callable[[Objectives], Objectives]) -> None:
        """Replaces the objectives by what `change` makes of them; stored before this returns."""
        self.state(change, ())

    def set_pin(self, pin: Pin) -> None:
        """Adds a pin, or adds to that of the same cgroup and node; stored before this returns.

        One for good replaces one that ends, also those on single nodes when it is for all nodes:
        they would hide it. Any replaces that of a rollout. InputError for one that ends beside one
        for good, which it would end.
        """
        self.state(None, (pin,))

    def state(
        self, change: Callable[[Objectives], Objectives] | None, pins: Iterable[Pin]
    ) -> Before | None:
        """Changes objectives and adds pins, all of it or nothing; see `set_pin`.

        What was stated before; None where nothing is other than it was.
        """
        with self._lock, self._audited() as kept:
            if change is not None:
                changed = change(self._asked.objectives)
                self.store.set_objectives(changed)
                self._asked = replace(self._asked, objectives=changed)
            for pin in pins:
                self._set_pin(pin)
        self.changes.tell(Topic.ASKED)
        return kept[0] if kept else None

    def _set_pin(self, pin: Pin) -> None:
        for earlier in self._asked.pins if pin.until_s is not None else ():
            same = earlier.cgroup == pin.cgroup and earlier.node in (None, pin.node)
            if same and earlier.until_s is None:
                raise InputError(f"pin {pin.cgroup}: until_s: it is pinned: unpin it first")
        for earlier in self._asked.pins:
            is_revert = earlier.cgroup == pin.cgroup and earlier.until_s is not None
            if is_revert and pin.node is None and pin.until_s is None:
                self.store.delete_pin(earlier.cgroup, earlier.node)
                continue
            is_for_good = earlier.until_s is not None and pin.until_s is None
            replaces = is_for_good or earlier.rollout is not None
            if (earlier.cgroup, earlier.node) == (pin.cgroup, pin.node) and not replaces:
                more = {key: value for key, value in vars(pin).items() if value is not None}
                pin = replace(earlier, **{**more, "until_s": pin.until_s})
        self.store.set_pin(pin)
        self._take_pins()

    def before(self) -> Before | None:
        """What was stated before the last change by a person, without pins that ended since."""
        last = self.store.last_before()
        if last is None:
            return None
        return replace(last, pins=tuple(one for one in last.pins if not self._is_over(one)))

    def undo(self, change: int) -> None:
        """Puts objectives and pins back as they were before the last change, which is `change`.

        ConflictError if it is not the last any more. A pin that has ended is not restored, and
        those of a rollout stay.
        """
        with self._lock, self._audited(can_undo=False):
            last = self.before()
            if last is None or last.change != change:
                raise ConflictError(f"undo: change {change} is not the last one any more")
            self.store.set_objectives(last.objectives)
            for pin in self.store.pins():
                if pin.rollout is None:
                    self.store.delete_pin(pin.cgroup, pin.node)
            for pin in last.pins:
                self.store.set_pin(pin)
            self.store.forget_before(change)
            self._asked = replace(self._asked, objectives=last.objectives)
            self._take_pins()
        self.changes.tell(Topic.ASKED)

    def delete_pin(self, cgroup: str, node: str | None) -> bool:
        """Removes a pin; False when there was none. ConflictError for that of a rollout."""
        with self._lock, self._audited():
            for pin in self._asked.pins:
                if (pin.cgroup, pin.node) == (cgroup, node) and pin.rollout is not None:
                    told = f"pin {cgroup}: rollout {pin.rollout} holds it on node {node}"
                    raise ConflictError(f"{told} (allowed: stop the rollout first)")
            removed = self.store.delete_pin(cgroup, node)
            self._take_pins()
        self.changes.tell(Topic.ASKED)
        return removed

    def hold_pins(self, pins: Sequence[Pin], renewed_s: float) -> None:
        """Makes these all the pins of rollouts: sets missing ones, gives the others up.

        A tenant that an operator pinned is left to that pin. One that differs in its end alone
        stays, and ends later once it would end within `renewed_s`. StoreFailedError where nothing
        can be stored: what is given up is not in force any more, and the next call tries again.
        """
        before = self._asked.pins
        try:
            with self._lock:
                self._hold_pins(pins, self.store.now_s() + renewed_s)
        finally:
            if self._asked.pins != before:
                self.changes.tell(Topic.ASKED)

    def _hold_pins(self, pins: Sequence[Pin], least_s: float) -> None:
        """Of those that are kept each ends after `least_s`."""
        known = self._asked.pins
        held = {replace(pin, until_s=None): pin for pin in known if pin.rollout is not None}
        kept, new = set[Pin](), list[Pin]()
        for pin in beside(known, pins):
            same = held.get(replace(pin, until_s=None))
            if same is not None:
                kept.add(same)
            if same is None or (same.until_s or 0.0) <= least_s:
                new.append(pin)
        given_up = (frozenset(held.values()) - kept) | self._undeleted
        if given_up or new:
            self._replace_pins(given_up, new)

    def _replace_pins(self, pins: frozenset[Pin], new: Sequence[Pin]) -> None:
        """What is not in force any more is so whether or not that can be stored."""
        try:
            with self._audited(can_undo=False):
                # An operator's may be in the place of one by now.
                for pin in pins.intersection(self.store.pins()):
                    self.store.delete_pin(pin.cgroup, pin.node)
                for pin in new:
                    self.store.set_pin(pin)
                self._undeleted = frozenset()
                self._take_pins()
        except StoreFailedError:
            self._undeleted = pins
            left = tuple(pin for pin in self._asked.pins if pin not in pins)
            self._asked = replace(self._asked, pins=left)
            raise
