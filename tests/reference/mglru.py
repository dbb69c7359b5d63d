# SPDX-License-Identifier: Apache-2.0
"""Naive MGLRU for file pages accessed by read(), as in Linux 6.12's mm/vmscan.c.

Only the deviations listed in bpf/policies/mglru/README.md differ from the kernel: protected pages
join the young end of the next generation, and ghosts are bounded by the capacity.
"""

MAX_GENERATIONS = 4
MIN_GENERATIONS = 2
TIERS = 4
MAX_ACCESSES = 5
MAX_PASSES = 16
MAX_SCAN = 4096


def tier_of(accesses: int) -> int:
    """Return order_base_2(accesses); no access counts as one."""
    return max(accesses - 1, 0).bit_length()


class Reference:
    """Generations by sequence number. Each is a list of keys, oldest first."""

    def __init__(
        self, capacity_pages: int, batch: int, min_refaults: int = 64, tier_gain: int = 2
    ) -> None:
        self.capacity = capacity_pages
        self.batch = min(batch, max(capacity_pages // 16, 1))
        self.min_refaults = min_refaults
        self.tier_gain = tier_gain
        self.generations: dict[int, list[int]] = {0: [], 1: [], 2: [], 3: []}
        self.accesses: dict[int, int] = {}
        self.ghosts: dict[int, tuple[int, int]] = {}  # key: sequence number, re-references
        self.evicted = [0] * TIERS
        self.protected = [0] * TIERS
        self.refaulted = [0] * TIERS
        self.avg_total = [0] * TIERS
        self.avg_refaulted = [0] * TIERS

    @property
    def min_seq(self) -> int:
        """Return the sequence number of the oldest generation."""
        return min(self.generations)

    @property
    def max_seq(self) -> int:
        """Return the sequence number of the youngest generation."""
        return max(self.generations)

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request. Return whether it is a hit."""
        hit = key in self.accesses
        if not hit:
            self._miss(key)
        self.accesses[key] = min(self.accesses[key] + 1, MAX_ACCESSES)
        return hit

    def _miss(self, key: int) -> None:
        ghost = self.ghosts.pop(key, None)
        if len(self.accesses) >= self.capacity:
            for victim in self._evict_folios():
                self._remove(victim)
        self.accesses[key] = 0
        if ghost is not None and ghost[0] == self.min_seq:
            self.refaulted[tier_of(ghost[1] + 1)] += 1
            if ghost[1] >= MAX_ACCESSES - 2:
                self.accesses[key] = MAX_ACCESSES
        full = len(self.generations) == MAX_GENERATIONS
        self.generations[self.min_seq + full].append(key)

    def _remove(self, key: int) -> None:
        accesses = self.accesses.pop(key)
        for pages in self.generations.values():
            if key in pages:
                pages.remove(key)
        self.evicted[tier_of(accesses)] += 1
        self.ghosts[key] = (self.min_seq, max(accesses - 1, 0))
        if len(self.ghosts) > self.capacity:
            del self.ghosts[next(iter(self.ghosts))]

    def _evict_folios(self) -> list[int]:
        victims: list[int] = []
        scanned_seq, tier = -1, 0
        for turn in range(MAX_PASSES):
            if len(victims) == self.batch:
                break
            if turn and self._needs_aging():
                self.generations[self.max_seq + 1] = []
                continue
            if scanned_seq != self.min_seq:
                scanned_seq, tier = self.min_seq, self._highest_evictable_tier()
            if len(self.generations) > MIN_GENERATIONS:
                self._scan(victims, tier)
            self._retire_empty(victims)
        return victims or [next(pages[0] for pages in self._by_list_number() if pages)]

    def _by_list_number(self) -> list[list[int]]:
        """Return the generations in the order in which their lists were created.

        The simulated kernel goes through the lists in this order when it chooses pages
        itself.
        """
        order = sorted(self.generations, key=lambda seq: seq % MAX_GENERATIONS)
        return [self.generations[seq] for seq in order]

    def _scan(self, victims: list[int], tier: int) -> None:
        oldest = self.generations[self.min_seq]
        for key in oldest[:MAX_SCAN]:
            if len(victims) == self.batch:
                break
            accesses = self.accesses[key]
            if tier_of(accesses) > tier or accesses == MAX_ACCESSES:
                self.protected[tier_of(accesses)] += 1
                self.accesses[key] = 0
                oldest.remove(key)
                self.generations[self.min_seq + 1].append(key)
            elif key not in victims:
                victims.append(key)

    def _retire_empty(self, victims: list[int]) -> None:
        retired = False
        while len(self.generations) > MIN_GENERATIONS:
            if any(key not in victims for key in self.generations[self.min_seq]):
                break
            # Candidates leave together with their generation.
            del self.generations[self.min_seq]
            retired = True
        if retired:
            self._carry_over()

    def _carry_over(self) -> None:
        for tier in range(TIERS):
            total = self.evicted[tier] + self.protected[tier]
            self.avg_total[tier] = (self.avg_total[tier] + total) // 2
            self.avg_refaulted[tier] = (self.avg_refaulted[tier] + self.refaulted[tier]) // 2
        self.evicted = [0] * TIERS
        self.protected = [0] * TIERS
        self.refaulted = [0] * TIERS

    def _needs_aging(self) -> bool:
        if len(self.generations) != MIN_GENERATIONS + 1:
            return len(self.generations) <= MIN_GENERATIONS
        total = sum(map(len, self.generations.values()))
        young, old = len(self.generations[self.max_seq]), len(self.generations[self.min_seq])
        return young * MIN_GENERATIONS > total or old * (MIN_GENERATIONS + 2) < total

    def _highest_evictable_tier(self) -> int:
        refaulted = [a + b for a, b in zip(self.avg_refaulted, self.refaulted, strict=True)]
        counts = zip(self.avg_total, self.evicted, self.protected, strict=True)
        total = [sum(row) for row in counts]
        for tier in range(1, TIERS):
            limit = (refaulted[0] + 1) * total[tier] * self.tier_gain
            pays = refaulted[tier] * (total[0] + self.min_refaults) > limit
            if refaulted[tier] >= self.min_refaults and pays:
                return tier - 1
        return TIERS - 1
