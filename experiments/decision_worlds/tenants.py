# SPDX-License-Identifier: Apache-2.0
"""Random tenants: their size and load, and the effects of their policies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from experiments.control_loop.plant import MIB, Curve, PlantTenant, flat
from experiments.control_loop.sampling import Sampling

from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sizes import PAGE_BYTES

POLICIES = ("lirs", "s3fifo", "sieve", "twoq", "wtinylfu")
"""Policies that the autopilot may choose."""
REREAD_SHARE = 0.25
"""Share of the page cache that a swap reads again."""
MISS_COST_US = 500.0
EVENTS_PER_S, SAMPLE_PAGES = 2000.0, 4096.0
"""Limits of the agent's sample of a tenant: accesses per second, and pages."""
WORKING_SETS = 4.0
"""Distinct pages divided by the pages of the page cache."""
WHITE = 0.0
CORRELATED = float(np.exp(-1 / 20))
"""Share of an error that remains after an interval: it falls by a factor of e in 20 s."""
FIXED = 1.0


@dataclass(frozen=True)
class Effect:
    """How much more of all accesses a policy misses than the default: true and as predicted."""

    true: float = 0.0
    told: float = 0.0


NONE = Effect()
Regime = Mapping[str, Effect]
"""Effects by policy. Policies without an entry behave like the default."""


def regime(**effects: Effect) -> Regime:
    """Return a regime of all candidates, some of which have an effect."""
    return {name: effects.get(name, NONE) for name in POLICIES}


@dataclass(frozen=True)
class Kind:
    """Tenants of one kind.

    `kept` is the share of a counterfactual's error that remains after an interval, None if there is
    no error.

    The next regime begins every `regime_s` seconds, and the first one follows the last. With
    `is_told` the agent reports that a regime began.
    """

    name: str
    regimes: tuple[Regime, ...] = field(default_factory=lambda: (regime(),))
    kept: float | None = WHITE
    regime_s: int = 0
    is_told: bool = True

    def at(self, interval: int) -> Regime:
        """Return the regime of an interval."""
        return self.regimes[self.number(interval) % len(self.regimes)]

    def number(self, interval: int) -> int:
        """Return how many regimes ended before an interval."""
        return interval // self.regime_s if self.regime_s else 0

    def best(self, interval: int) -> str:
        """Return the policy that truly misses least in an interval."""
        now = {DEFAULT: NONE, **self.at(interval)}
        return min(now, key=lambda name: now[name].true)


@dataclass(frozen=True)
class Drawn:
    """The drawn parameters of one tenant; `miss` is the miss ratio of the default."""

    seed: int
    pages: int
    miss: float
    threads: float
    service_us: float
    phase: int

    @classmethod
    def of(cls, seed: int) -> "Drawn":
        """Draw a page cache of 16 to 256 MiB, and roughly 3,000 to 40,000 operations per second."""
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
        """Accesses per second under the default."""
        return 1e6 * self.threads / (self.service_us + self.miss * MISS_COST_US)

    def payback_s(self, points: float) -> float:
        """Return the seconds after which savings of `points` of all accesses pay for the swap."""
        return REREAD_SHARE * self.pages / (points * self.accesses)

    @property
    def rate(self) -> float:
        """Share of its pages that the agent samples."""
        pages = WORKING_SETS * self.pages
        return min(1.0, EVENTS_PER_S / self.accesses, SAMPLE_PAGES / pages)

    def curves(self, now: Regime, is_true: bool) -> dict[str, Curve]:
        """Return the miss ratios of all policies, true or predicted.

        They do not depend on memory.
        """
        found = {DEFAULT: flat(self.miss)}
        for name, one in now.items():
            found[name] = flat(self.miss + (one.true if is_true else one.told))
        return found


def tenant(drawn: Drawn, kind: Kind, index: int) -> PlantTenant:
    """Return a tenant of the plant in its first regime."""
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
    """Begin the next regime."""
    now = kind.at(interval)
    one.change(drawn.curves(now, True))
    one.told = drawn.curves(now, False)
    one.phase += kind.is_told
