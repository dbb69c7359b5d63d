# SPDX-License-Identifier: Apache-2.0
"""Tenants that are drawn at random: how large and busy they are, and what their policies do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from experiments.control_loop.plant import MIB, Curve, PlantTenant, flat
from experiments.control_loop.sampling import Sampling

from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sizes import PAGE_BYTES

POLICIES = ("lirs", "s3fifo", "sieve", "twoq", "wtinylfu")
"""Those that the autopilot may choose."""
REREAD_SHARE = 0.25
"""Of the page cache: what a swap reads anew."""
MISS_COST_US = 500.0
EVENTS_PER_S, SAMPLE_PAGES = 2000.0, 4096.0
"""What the agent samples of a tenant at most: accesses per second, and pages."""
WORKING_SETS = 4.0
"""Distinct pages over those of the page cache."""
WHITE = 0.0
CORRELATED = float(np.exp(-1 / 20))
"""Of an error, what is left after an interval: it counts e times less after 20 s."""
FIXED = 1.0


@dataclass(frozen=True)
class Effect:
    """By how much more a policy misses than the default, of all accesses: truly, and as told."""

    true: float = 0.0
    told: float = 0.0


NONE = Effect()
Regime = Mapping[str, Effect]
"""Policies that are not named are as the default is."""


def regime(**effects: Effect) -> Regime:
    """All candidates, of which some have an effect."""
    return {name: effects.get(name, NONE) for name in POLICIES}


@dataclass(frozen=True)
class Kind:
    """Tenants of one kind. `kept` is how errors of counterfactuals last, None without any.

    Every `regime_s` the next regime begins, after the last the first again; with `is_told` the
    agent says so.
    """

    name: str
    regimes: tuple[Regime, ...] = field(default_factory=lambda: (regime(),))
    kept: float | None = WHITE
    regime_s: int = 0
    is_told: bool = True

    def at(self, interval: int) -> Regime:
        """The regime of an interval."""
        return self.regimes[self.number(interval) % len(self.regimes)]

    def number(self, interval: int) -> int:
        """How many regimes ended before an interval."""
        return interval // self.regime_s if self.regime_s else 0

    def best(self, interval: int) -> str:
        """The policy that truly misses least in an interval."""
        now = {DEFAULT: NONE, **self.at(interval)}
        return min(now, key=lambda name: now[name].true)


@dataclass(frozen=True)
class Drawn:
    """One tenant as drawn; `miss` is the miss ratio of the default."""

    seed: int
    pages: int
    miss: float
    threads: float
    service_us: float
    phase: int

    @classmethod
    def of(cls, seed: int) -> "Drawn":
        """Page caches of 16 to 256 MiB; 3,000 to 40,000 operations per second, roughly."""
        random = np.random.default_rng(seed)
        mib = 16.0 * 16.0 ** random.random()
        return cls(
            seed,
            int(mib * MIB) // PAGE_BYTES,
            float(random.uniform(0.15, 0.85)),
            float(8.0 ** random.random()),
            float(random.uniform(20.0, 100.0)),
            int(random.integers(0, 6)),
        )

    @property
    def accesses(self) -> float:
        """Per second, under the default."""
        return 1e6 * self.threads / (self.service_us + self.miss * MISS_COST_US)

    def payback_s(self, points: float) -> float:
        """For how long a policy has to save so much of all accesses to make good for its swap."""
        return REREAD_SHARE * self.pages / (points * self.accesses)

    @property
    def rate(self) -> float:
        """The share of its pages that the agent samples."""
        pages = WORKING_SETS * self.pages
        return min(1.0, EVENTS_PER_S / self.accesses, SAMPLE_PAGES / pages)

    def curves(self, now: Regime, is_true: bool) -> dict[str, Curve]:
        """The miss ratios of all policies; memory does not matter."""
        found = {DEFAULT: flat(self.miss)}
        for name, one in now.items():
            found[name] = flat(self.miss + (one.true if is_true else one.told))
        return found


def tenant(drawn: Drawn, kind: Kind, index: int) -> PlantTenant:
    """A tenant of the plant, in its first regime."""
    first = kind.at(0)
    sampling = None if kind.kept is None else Sampling(drawn.seed, drawn.rate, kind.kept)
    return PlantTenant(
        f"/{index:02d}-{kind.name}",
        drawn.curves(first, True),
        drawn.pages * PAGE_BYTES,
        told=drawn.curves(first, False),
        threads=drawn.threads,
        service_us=drawn.service_us,
        phase=drawn.phase,
        cgroup_id=index + 1,
        sampling=sampling,
        reread_pages=REREAD_SHARE * drawn.pages,
        tells_reread=False,
    )


def begin_regime(one: PlantTenant, drawn: Drawn, kind: Kind, interval: int) -> None:
    """The next regime begins."""
    now = kind.at(interval)
    one.change(drawn.curves(now, True))
    one.told = drawn.curves(now, False)
    one.phase += kind.is_told
