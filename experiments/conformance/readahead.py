# SPDX-License-Identifier: Apache-2.0
"""Plays streams through readahead policies in the kernel, and through the simulated ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from experiments.kernel_guest import streams
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import Guest, GuestError, Lines, Step
from experiments.kernel_guest.streams import Pages
from experiments.shared.rows import Row

from cachepilot import _models

from .cells import complete
from .plays import FILE, Setup, capacity_pages, played, resident_pages, was_ejected

PREFIX = "readahead."
KERNEL = "none"
MODELS = {KERNEL: "linux"}
EVICTION = "lru"
WINDOW_PAGES = 32
READ_PAGES = {"large_reads": streams.LARGE_READ_PAGES}
GOAL = 0.02


@dataclass(frozen=True)
class Counts:
    """The misses of the measured reads, and the fate of the pages that a policy had read ahead."""

    misses: int  # reads that found some page not cached
    ahead: int
    used: int
    wasted: int


@dataclass(frozen=True)
class Play:
    """What the kernel did with one stream under one readahead policy, after the warm-up."""

    policy: str
    stream: str
    accesses: int
    counts: Counts
    resident_pages: float


@dataclass(frozen=True)
class Cell:
    """One readahead policy on one stream, in the kernel and simulated; shares of the reads."""

    policy: str
    stream: str
    kernel: float
    simulated: float
    kernel_used: float
    simulated_used: float
    kernel_wasted: float
    simulated_wasted: float
    cache_pages: int
    accesses: int

    @property
    def difference(self) -> float:
        """Miss ratio, kernel minus simulated."""
        return self.kernel - self.simulated

    @property
    def worst_pages(self) -> float:
        """The larger of the differences in pages used and in pages wasted."""
        used = abs(self.kernel_used - self.simulated_used)
        return max(used, abs(self.kernel_wasted - self.simulated_wasted))


def _step(policy: str, stream: str, setup: Setup) -> Step:
    player = program("play_stream")
    path = setup.streams[stream]
    warmup = path.stat().st_size // 8 // 3
    command = f"""
	fresh_cgroup {setup.cgroup_bytes}
	readahead_kib {WINDOW_PAGES * 4}
	policy {EVICTION}
	readahead {policy}
	taskset --cpu-list 0 {player} --readahead --file {FILE} --stream {path} \\
		--cgroup $BENCH --warmup {warmup} --read-pages {READ_PAGES.get(stream, 1)}
	cat $BENCH/memory.cache_ext >&2
"""
    return Step(f"{PREFIX}{policy}.{stream}", command)


def _play(policy: str, stream: str, lines: Lines) -> Play:
    name = f"{PREFIX}{policy}.{stream}"
    reason = was_ejected(lines)
    if reason is not None:
        raise GuestError(f"{name}: the kernel ejected {EVICTION}: {reason}")
    attached = lines.end["memory.cache_ext"].get("prefetch_policy")
    if attached != policy:
        raise GuestError(f"{name}: the readahead policy was {attached} at the end")

    def of_cgroup(key: str) -> int:
        return int(lines.measured(lambda line: line["memory.cache_ext"].get(key, 0)))

    return Play(
        policy,
        stream,
        int(lines.measured(lambda line: line["accesses"])),
        Counts(
            misses=int(lines.measured(lambda line: line["uncached_reads"])),
            ahead=of_cgroup("prefetch_ahead_pages"),
            used=of_cgroup("prefetch_used_pages"),
            wasted=of_cgroup("prefetch_wasted_pages"),
        ),
        resident_pages(lines),
    )


def play_all(
    guest: Guest, policies: Sequence[str], setup: Setup, play_now: bool = True
) -> list[Play]:
    """Call `played` for readahead policies."""
    return played(guest, policies, setup, _step, _play, play_now)


def simulated(play: Play, pages: Pages, file_pages: int) -> Counts:
    """Run the same reads through the model, and count after the warm-up."""
    policy = MODELS.get(play.policy, play.policy)
    cache = _models.ReadaheadCache(
        policy,
        EVICTION,
        capacity_pages(play.resident_pages),
        file_pages,
        max_window_pages=WINDOW_PAGES,
    )
    warmup, read_pages = len(pages) - play.accesses, READ_PAGES.get(play.stream, 1)
    cache.read(np.ascontiguousarray(pages[:warmup]), pages=read_pages)
    warm = cache.result()
    hits = cache.read(np.ascontiguousarray(pages[warmup:]), pages=read_pages)
    end = cache.result()
    return Counts(
        misses=len(hits) - int(np.count_nonzero(hits)),
        ahead=end.own_ahead_pages - warm.own_ahead_pages,
        used=end.own_used_pages - warm.own_used_pages,
        wasted=end.own_wasted_pages - warm.own_wasted_pages,
    )


def cell(play: Play, pages: Pages, file_pages: int) -> Cell:
    """Return the play with its simulation. The kernel counts nothing of its own readahead."""
    kernel, model = play.counts, simulated(play, pages, file_pages)
    if play.policy == KERNEL:
        model = Counts(model.misses, 0, 0, 0)

    def share(count: int) -> float:
        return round(count / play.accesses, 6)

    return Cell(
        play.policy,
        play.stream,
        share(kernel.misses),
        share(model.misses),
        share(kernel.used),
        share(model.used),
        share(kernel.wasted),
        share(model.wasted),
        capacity_pages(play.resident_pages),
        play.accesses,
    )


def rows(cells: Sequence[Cell], every: Sequence[str]) -> list[Row]:
    """Return the largest differences of each policy that played every stream."""
    found = []
    for policy, of_policy in complete(cells, every):
        name = "kernel" if policy == KERNEL else policy
        found.append(_misses_row(name, of_policy))
        if policy != KERNEL:
            found.append(_pages_row(name, of_policy))
    return found


def _misses_row(name: str, cells: Sequence[Cell]) -> Row:
    worst = max(cells, key=lambda cell: abs(cell.difference))
    least = min(abs(cell.difference) for cell in cells)
    return Row(
        f"kernel.readahead_conformance_max.{name}",
        abs(worst.difference),
        "miss ratio",
        goal=GOAL,
        reference=f"simulated miss ratio on {worst.stream}, kernel {worst.kernel:.4f}",
        reference_value=worst.simulated,
        runs=len(cells),
        spread=(least, abs(worst.difference)),
    )


def _pages_row(name: str, cells: Sequence[Cell]) -> Row:
    worst = max(cells, key=lambda cell: cell.worst_pages)
    return Row(
        f"kernel.readahead_pages_conformance_max.{name}",
        worst.worst_pages,
        "pages used or wasted per read",
        goal=GOAL,
        reference=f"simulated pages used per read on {worst.stream}",
        reference_value=worst.simulated_used,
        runs=len(cells),
        spread=(min(cell.worst_pages for cell in cells), worst.worst_pages),
    )
