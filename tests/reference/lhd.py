# SPDX-License-Identifier: Apache-2.0
"""LHD (Beckmann, Chen, Cidon, NSDI 2018), with the policy's fixed-point numbers and ages."""

from dataclasses import dataclass, field

MAX_SCAN_PAGES = 512
AGES = 64
CLASSES = 4
EVENT = 16
MAX_EVENTS = 2**26


def first_ticks() -> list[int]:
    """Return the first tick of each age: four ages of one tick, then four for each doubling."""
    starts = [0, 1, 2, 3]
    width = 1
    while len(starts) < AGES:
        starts += [(4 + step) * width for step in range(4)]
        width *= 2
    return starts


FIRST_TICKS = first_ticks()


def age_of(ticks: int) -> int:
    """Return the age whose range holds this number of ticks. The last age has no end."""
    return max(age for age in range(AGES) if FIRST_TICKS[age] <= ticks)


def class_after_hit(before: int, ticks: int) -> int:
    """Return the class of a page, by the greatest age at a hit so far. Class 0 was never hit."""
    late, soon = 4, 2
    own = 1 if ticks >= late else 2 if ticks >= soon else 3
    return min(before, own) if before else own


@dataclass
class Class:
    """The events and densities of one class, by age."""

    number: int
    hits: list[int] = field(default_factory=lambda: [0] * AGES)
    evictions: list[int] = field(default_factory=lambda: [0] * AGES)
    density: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Set the densities used before anything is learned."""
        self.density = [(self.number + 1) * 2**29 // (first + 1) for first in FIRST_TICKS]

    def learn(self) -> None:
        """Recompute every density from its definition, then let the events decay."""
        for age in range(AGES):
            hits = sum(self.hits[age:])
            half_ticks = 0
            events_before = sum(self.hits[age:]) + sum(self.evictions[age:])
            for later in range(age, AGES):
                width = FIRST_TICKS[later + 1] - FIRST_TICKS[later] if later + 1 < AGES else 2**14
                ending = self.hits[later] + self.evictions[later]
                staying = events_before - ending
                # Pages whose lifetime ends in this age spend half of it there, the others all of
                # it.
                half_ticks += width * (2 * staying + ending)
                events_before = staying
            if half_ticks:
                self.density[age] = hits * 2**31 // half_ticks
        self.hits = [count - count // 8 for count in self.hits]
        self.evictions = [count - count // 8 for count in self.evictions]


@dataclass
class Page:
    """The tick of the last access, the class, and whether the page is kept to observe late hits."""

    accessed: int
    class_number: int
    explores: bool


class Reference:
    """One list, scored from its head by hit density; new pages go to the head."""

    def __init__(self, capacity_pages: int, batch: int, pages_per_candidate: int = 16) -> None:
        self.capacity_pages = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.pages_per_candidate = pages_per_candidate
        self.order: list[int] = []
        self.pages: dict[int, Page] = {}
        self.classes = [Class(number) for number in range(CLASSES)]
        self.now = 0
        self.tick_left = 1
        self.period_left = 0
        self.next_class = 0
        self.may_explore = False
        self.candidates_to_explore = 0

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request; True for a hit."""
        hit = key in self.pages
        if not hit:
            if len(self.order) >= self.capacity_pages:
                self._evict()
            self._add(key)
        self._pass_time()
        if hit:
            self._hit(self.pages[key])
        return hit

    def _add(self, key: int) -> None:
        explores = False
        if self.may_explore:
            explores = self.candidates_to_explore % 128 == 0
            self.candidates_to_explore += 1
        self.order.insert(0, key)
        self.pages[key] = Page(self.now, 0, explores)

    def _pass_time(self) -> None:
        self.period_left = max(0, self.period_left - 1)
        self.tick_left -= 1
        if self.tick_left == 0:
            self.tick_left = self.capacity_pages // 2048 + 1
            self.now += 1

    def _hit(self, page: Page) -> None:
        ticks = self.now - page.accessed
        self._count(self.classes[page.class_number].hits, ticks)
        page.accessed = self.now
        page.class_number = class_after_hit(page.class_number, ticks)
        page.explores = False

    def _count(self, cells: list[int], ticks: int) -> None:
        age = age_of(ticks)
        if cells[age] < MAX_EVENTS:
            cells[age] += EVENT

    def _density(self, key: int) -> int:
        page = self.pages[key]
        age = age_of(self.now - page.accessed)
        if page.explores and age < AGES - 1:
            return 2**32
        return self.classes[page.class_number].density[age]

    def _learn_next_class(self) -> None:
        period = min(max(self.capacity_pages, 1024), 2**19)
        self.period_left = period // CLASSES
        self.classes[self.next_class % CLASSES].learn()
        self.next_class += 1

    def _evict(self) -> None:
        if self.period_left == 0:
            self._learn_next_class()
        share = len(self.order) // 4
        wanted = max(self.batch, min(self.batch * self.pages_per_candidate, share))
        scored = self.order[: min(wanted, MAX_SCAN_PAGES)]
        explorers = sum(self.pages[key].explores for key in scored)
        victims = sorted(scored, key=self._density)[: self.batch]
        self.may_explore = explorers * 100 <= len(scored)
        rest = self.order[len(scored) :]
        # If the batch is the whole list, its order stays.
        self.order = rest + [key for key in scored if key not in victims]
        for key in victims:
            page = self.pages.pop(key)
            self._count(self.classes[page.class_number].evictions, self.now - page.accessed)
