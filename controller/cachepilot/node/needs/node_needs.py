# SPDX-License-Identifier: Apache-2.0
"""What the tenants of one node needed in the last day, sampled each minute and kept in the store.

A need is the memory, device reads and CPU time with which a tenant meets its objectives. A slot is
a quarter of an hour. Times are those of the controller's host, so that nodes can be added up. Pins
are ignored: they are what an operator wants now, not what the workload needs.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import inf

from cachepilot.domain.json_values import UNREADABLE
from cachepilot.domain.past.need import SLOTS, Need, PastNeeds, slot_of
from cachepilot.domain.units import BYTES_MAX
from cachepilot.node.needs.recent import RecentNeeds
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.store import Store

EVERY_S = 60.0
TENANTS_MAX = 10_000
"""Tenants whose needs are kept at most: those that were seen last."""
Needs = Mapping[str, Need]
"""By cgroup."""


def _readable(slot: object, text: bytes) -> tuple[int, dict[str, Need]]:
    """Parse a row of the store; raise one of UNREADABLE if it is damaged.

    Earlier versions stored memory and reads without CPU time.
    """
    if not isinstance(slot, int):
        raise TypeError(f"slot: {slot!r}")
    found = {}
    for cgroup, (size, iops, *rest) in json.loads(text).items():
        (cpus,) = rest or (None,)
        need = Need(float(size), float(iops), None if cpus is None else float(cpus))
        fine = 0 <= need.size_bytes <= BYTES_MAX and 0 <= need.device_iops < inf
        if not (fine and (need.cpus is None or 0 <= need.cpus < inf)):
            raise ValueError(f"{cgroup}: {need}")
        found[cgroup] = need
    return slot, found


class NodeNeeds:
    """The needs of all tenants of one node, also of those that are gone. Any thread may call it."""

    def __init__(
        self, node: str, store: Store, lost: Callable[[int], None] = lambda _: None
    ) -> None:
        """`lost` is called with the number of tenants that are forgotten: there are too many."""
        self._node, self._store, self._lost = node, store, lost
        self._lock = threading.Lock()
        self._tenants: dict[str, RecentNeeds] = {}
        self._unsaved: set[int] = set()
        self._taken_s = -inf
        self._newest: int | None = None
        """The last slot in which a tenant needed anything. An empty node does not advance it."""
        now = slot_of(store.now_s())
        for stored, text in store.needs(node, now - SLOTS, now):
            self._restore(stored, text)

    def _restore(self, stored: object, text: bytes) -> None:
        try:
            slot, told = _readable(stored, text)
        except UNREADABLE as error:
            # No copy can be kept in a full store, which reports that itself.
            with suppress(StoreFailedError):
                self._store.set_aside("needs", text, f"node {self._node}: {error}")
            return
        for cgroup, need in told.items():
            self._tenants.setdefault(cgroup, RecentNeeds()).put(slot, need)
            self._newest = slot

    def is_due(self, now_s: float) -> bool:
        """Whether needs must be sampled again. They are due too if the clock went back."""
        return not 0 <= now_s - self._taken_s < EVERY_S

    def miss(self, now_s: float) -> None:
        """Note that no sample could be taken. The next one is due a minute later."""
        self._taken_s = now_s

    def take(self, now_s: float, needs: Needs, regimes: Mapping[str, int]) -> None:
        """Take in a sample of needs; store slots that have ended, if that is possible."""
        now, self._taken_s = slot_of(now_s), now_s
        with self._lock:
            for cgroup, need in needs.items():
                one = self._tenants.setdefault(cgroup, RecentNeeds())
                one.take(now, regimes.get(cgroup, 0), need)
            self._newest = now if needs else self._newest
            if needs and now not in self._unsaved:
                self._unsaved.add(now)
                self._forget(now)
        self._save(slot for slot in self._unsaved.copy() if slot != now)

    def _forget(self, now: int) -> None:
        """Drop tenants not seen for a day, and those seen least recently if there are too many."""
        last = {cgroup: one.newest(now) for cgroup, one in self._tenants.items()}
        kept = sorted((name for name in last if last[name] > now - SLOTS), key=last.__getitem__)
        lost = len(kept) - TENANTS_MAX
        if lost > 0:
            self._lost(lost)
        self._tenants = {cgroup: self._tenants[cgroup] for cgroup in kept[-TENANTS_MAX:]}
        self._unsaved = {slot for slot in self._unsaved if now - SLOTS < slot <= now}

    def save(self) -> None:
        """Store all that is not stored yet, if that is possible."""
        self._save(self._unsaved.copy())

    def _save(self, slots: Iterable[int]) -> None:
        for slot in sorted(slots):
            with self._lock:
                known = {cgroup: one.of(slot) for cgroup, one in self._tenants.items()}
            told = {cgroup: need for cgroup, need in known.items() if need is not None}
            try:
                self._store.save_needs(self._node, slot, json.dumps(told))
            except StoreFailedError:
                # The store reports its failure itself. The slots are stored once it can be written
                # again.
                return
            self._unsaved.discard(slot)

    def told(
        self, now_s: float, slots: int = SLOTS, cgroups: Iterable[str] | None = None
    ) -> dict[str, PastNeeds]:
        """Return what tenants needed in the last `slots` slots, the present one included.

        Only `cgroups` are returned, because many others may be gone and cycles wait for this call.
        With None all tenants are.
        """
        now = slot_of(now_s)
        with self._lock:
            names = self._tenants.keys() if cgroups is None else self._tenants.keys() & cgroups
            found = {cgroup: self._tenants[cgroup].told(now, slots) for cgroup in names}
        return {cgroup: one for cgroup, one in found.items() if one.slots.size}

    def last(self) -> set[str]:
        """Tenants with needs in the newest slot that has any. They may have left the node since."""
        newest = self._newest
        if newest is None:
            return set()
        with self._lock:
            return {one for one in self._tenants if self._tenants[one].of(newest) is not None}
