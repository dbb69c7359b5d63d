# SPDX-License-Identifier: Apache-2.0
"""Plays a stream through one policy in the kernel, and reads what the kernel counted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import TypeVar

from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import (
    Guest,
    GuestError,
    Lines,
    Step,
    outputs_of,
    run_steps,
    say,
)

NATIVE = ("default", "mglru.native")
PAGE_BYTES = 4096
BATCH = 32
MOST_REFUSED = 0.001
FILE = "/mnt/scratch/pages"
# Number of accesses between two looks at the size of the cgroup.
STEP = 256
Of = TypeVar("Of")
"""A play of either kind of policy."""


@dataclass(frozen=True)
class Setup:
    """Sizes that all plays share."""

    cgroup_bytes: int
    file_bytes: int
    warmup: int
    streams: dict[str, Path]


@dataclass(frozen=True)
class Size:
    """The cache has room for `pages` pages from this access on."""

    access: int
    pages: int


@dataclass(frozen=True)
class Play:
    """What the kernel did with one stream under one policy, after the warm-up."""

    policy: str
    stream: str
    accesses: int
    misses: int
    block_read_pages: float
    sizes: list[Size]
    accesses_per_second: float

    @property
    def miss_ratio(self) -> float:
        """Miss ratio after the warm-up.

        Misses are the folios that the framework counts as added, or block reads without a policy.
        """
        return self.misses / self.accesses


def _step(policy: str, stream: str, setup: Setup) -> Step:
    player = program("play_stream")
    command = f"""
	fresh_cgroup {setup.cgroup_bytes}
	policy {policy}
	taskset --cpu-list 0 {player} --file {FILE} --stream {setup.streams[stream]} --cgroup $BENCH \\
		--warmup {setup.warmup} --step {STEP}
	[ ! -e $BENCH/memory.cache_ext ] || cat $BENCH/memory.cache_ext >&2
"""
    return Step(f"{policy}.{stream}", command)


def resident_pages(lines: Lines) -> float:
    """Return the mean of resident file pages over the measured part.

    Reading the statistics of the cgroup would make the kernel bring them up to date. memory.current
    is cheap to read, but it includes more than file pages. The difference is known from the end,
    when both are read.
    """
    others: int = lines.end["memory.current"] - lines.end["memory.stat"]["file"]
    measured = [tick for tick in lines.ticks if tick["accesses"] > lines.warm["accesses"]]
    current = mean(int(tick["memory.current"]) for tick in measured)
    return (current - others) / PAGE_BYTES


def capacity_pages(resident: float) -> int:
    """Return the capacity with this mean: reclaim removes a batch, and pages grow one by one."""
    return round(resident + BATCH / 2)


def sizes(lines: Lines, limit_bytes: int) -> list[Size]:
    """Return the room for pages of the file: the limit without what else is charged to the cgroup.

    If the policy's registry does not count all pages of the file, there is one size, from the mean.
    Until the cgroup is full, its charge includes a stock of pages, from which the next pages are
    taken. A size is therefore the larger of the sizes at both ends of its step.
    """
    end = lines.end.get("memory.cache_ext", {}).get("resident_pages", 0) * PAGE_BYTES
    if abs(end - lines.end["memory.stat"]["file"]) > BATCH * PAGE_BYTES:
        return [Size(0, capacity_pages(resident_pages(lines)))]
    room = [
        Size(
            line["accesses"],
            (limit_bytes - line["memory.current"]) // PAGE_BYTES
            + line["memory.cache_ext"]["resident_pages"],
        )
        for line in sorted([*lines.ticks, lines.warm, lines.end], key=lambda line: line["accesses"])
    ]
    begin = Size(0, room[0].pages)
    return [
        Size(now.access, max(now.pages, later.pages)) for now, later in pairwise([begin, *room])
    ]


def was_ejected(lines: Lines) -> str | None:
    """Return why the kernel ejected the policy; None if it did not."""
    state = lines.end.get("memory.cache_ext", {})
    if state.get("ejections", 0) > lines.start.get("memory.cache_ext", {}).get("ejections", 0):
        return str(state.get("reason", "ejected"))
    return None


def _check_refused(policy: str, stream: str, lines: Lines) -> None:
    """Report candidates refused as busy: only the player uses pages, so the model has none."""
    refused = lines.measured(lambda line: line["memory.cache_ext"]["rejected_busy"])
    proposed = lines.measured(lambda line: line["memory.cache_ext"]["proposed_pages"])
    if refused > MOST_REFUSED * proposed:
        say(f"{policy}.{stream}: {refused:.0f} of {proposed:.0f} candidates were refused as busy")


def _play(limit_bytes: int, policy: str, stream: str, lines: Lines) -> Play:
    reason = was_ejected(lines)
    if reason is not None:
        raise GuestError(f"{policy}.{stream}: the kernel ejected the policy: {reason}")
    misses = lines.block_read_pages
    if policy not in NATIVE:
        misses = lines.measured(lambda line: line["memory.cache_ext"]["added"])
        _check_refused(policy, stream, lines)
    return Play(
        policy=policy,
        stream=stream,
        accesses=int(lines.measured(lambda line: line["accesses"])),
        misses=int(misses),
        block_read_pages=lines.block_read_pages,
        sizes=sizes(lines, limit_bytes),
        accesses_per_second=lines.accesses_per_second,
    )


def played(
    guest: Guest,
    policies: Sequence[str],
    setup: Setup,
    step: Callable[[str, str, Setup], Step],
    read: Callable[[str, str, Lines], Of],
    play_now: bool,
) -> list[Of]:
    """Play every policy on every stream. Plays that failed are missing and have been reported.

    `step` makes a play of a policy and a stream, and `read` parses what it printed. If `play_now`
    is false, the output of the last run is read again.
    """
    cells = [(policy, stream) for policy in policies for stream in setup.streams]
    steps = [step(policy, stream, setup) for policy, stream in cells]
    outputs = run_steps(guest, steps) if play_now else outputs_of(guest, steps)
    plays = []
    for (policy, stream), one in zip(cells, steps, strict=True):
        text = outputs.get(one.name)
        if text is None:
            continue
        try:
            plays.append(read(policy, stream, Lines.parse(text, one.name)))
        except GuestError as error:
            say(str(error))
    return plays


def play_all(
    guest: Guest, policies: Sequence[str], setup: Setup, play_now: bool = True
) -> list[Play]:
    """Call `played` for eviction policies."""
    return played(guest, policies, setup, _step, partial(_play, setup.cgroup_bytes), play_now)
