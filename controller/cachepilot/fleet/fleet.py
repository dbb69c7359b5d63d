# SPDX-License-Identifier: Apache-2.0
"""All nodes, and what operators ask of them: objectives and pins.

A pin fixes the policy or the limit of one tenant, on one node or on all. An operator sets it, or a
rollout (which moves tenants between nodes) for a limited time.
"""

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
"""How many parts of a change the description of an undoable change names."""


class FleetError(InputError):
    """A node cannot join; the message says why."""


class Fleet:
    """The nodes by name, from the store and from sessions, and the objectives and pins of all."""

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
        # A pin that ended while no controller ran is loaded here; the first call of `asked` ends it
        # and records its end in the history as for any other pin.
        self._pin_ends_s = math.inf
        self._undeleted = frozenset[Pin]()
        """Pins that rollouts gave up and that could not be deleted from the store yet."""
        self._take_pins(with_ended=True)
        self._loops = {row.name: self._loop(row) for row in store.nodes()}

    def _loop(self, row: NodeRow) -> NodeLoop:
        return NodeLoop(row, self.config, self.store, self.asked, self._scraped, self.changes)

    def asked(self) -> Asked:
        """Return the objectives and pins in force now, without pins whose time is over.

        The call never waits for an operator's change that is in progress. In that case the next
        call ends the pins that are over.
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
        """Store the changes made inside the block with the actor who made them, or change nothing.

        Unless `can_undo` is False, the objectives and pins before the change are stored, too, so
        that a person can undo it. The yielded list contains them after the block if anything
        changed.
        """
        if self.store.now_s() >= self._pin_ends_s:
            # The end of a pin whose time is over must not be recorded as a change by the present
            # actor.
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
        """Delete a pin that is over from the store; if that fails, log it.

        The pin is no longer in force either way. The next pin that ends triggers another attempt.
        """
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
        """Return every node that was seen and is not forgotten, by name."""
        # Copy first, in one step: sessions on other threads add nodes.
        return dict(sorted(self._loops.copy().items()))

    def join(self, name: str) -> NodeLoop:
        """Return the loop of a node, created if the node is new.

        At the maximum, a new node replaces the node that was silent for longest, if it was silent
        for more than `keep_days`: its history has been dropped by then. Otherwise FleetError is
        raised.
        """
        with self._lock:
            found = self._loops.get(name)
            if found is None:
                if len(self._loops) >= NODES_MAX:
                    self._make_room(name)
                found = self._loops[name] = self._loop(NodeRow(name, 0, None, 0.0, None))
            # Reset the time of silence, so that the node is not forgotten before its first
            # snapshot.
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
        """Replace the objectives with the result of `change`; stored before this returns."""
        self.state(change, ())

    def set_pin(self, pin: Pin) -> None:
        """Add a pin, or merge it with the pin of the same cgroup and node.

        The pin is stored before this returns. A pin without an end replaces pins with an end, and
        if it applies to all nodes also those on single nodes, which would override it. Any pin
        replaces that of a rollout. Raises InputError for a pin with an end where a pin without an
        end exists, because the existing pin would then end as well.
        """
        self.state(None, (pin,))

    def state(
        self, change: Callable[[Objectives], Objectives] | None, pins: Iterable[Pin]
    ) -> Before | None:
        """Change objectives and add pins, either all of it or nothing; see `set_pin` for pins.

        Returns the objectives and pins before the change, or None if nothing changed.
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
        """Return the state before a person's last change, or None if there is none.

        Pins that ended since are left out.
        """
        last = self.store.last_before()
        if last is None:
            return None
        return replace(last, pins=tuple(one for one in last.pins if not self._is_over(one)))

    def undo(self, change: int) -> None:
        """Restore objectives and pins to their state before `change`.

        Raises ConflictError if `change` is not the last change any more. A pin that has ended is
        not restored, and the pins of rollouts stay.
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
        """Remove a pin; return False if there was none.

        Raises ConflictError for a rollout's pin.
        """
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
        """Make `pins` the complete set of rollout pins: set missing ones and give up all others.

        If an operator pinned a tenant, the operator's pin applies and the rollout's is not set. A
        pin that differs only in its end stays; its end is extended once it would come within
        `renewed_s` seconds. Raises StoreFailedError if nothing can be stored. Pins that are given
        up are then out of force all the same, and the next call tries to delete them again.
        """
        before = self._asked.pins
        try:
            with self._lock:
                self._hold_pins(pins, self.store.now_s() + renewed_s)
        finally:
            if self._asked.pins != before:
                self.changes.tell(Topic.ASKED)

    def _hold_pins(self, pins: Sequence[Pin], least_s: float) -> None:
        """Do the work of `hold_pins`; a pin that stays is extended if it ends by `least_s`."""
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
        """Delete `pins` and set `new`.

        `pins` are out of force even if the store cannot be written.
        """
        try:
            with self._audited(can_undo=False):
                # An operator's pin may have replaced a rollout's pin since, and must not be
                # deleted.
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
