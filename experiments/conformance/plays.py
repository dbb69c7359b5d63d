# SPDX-License-Identifier: Apache-2.0
"""Plays: a stream through one policy in the kernel, and what the kernel counted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
FILE = "/mnt/scratch/pages"
Of = TypeVar("Of")
"""A play, of whichever kind of policy."""


@dataclass(frozen=True)
class Setup:
    """Sizes that every play has in common."""

    cgroup_bytes: int
    file_bytes: int
    warmup: int
    streams: dict[str, Path]


@dataclass(frozen=True)
class Play:
    """What the kernel did with one stream under one policy, after the warm-up."""

    policy: str
    stream: str
    accesses: int
    misses: int
    block_read_pages: float
    resident_pages: float
    accesses_per_second: float
    refused_share: float  # of the candidates, as something else held them

    @property
    def miss_ratio(self) -> float:
        """By the framework's count of added folios, or by block reads without a policy."""
        return self.misses / self.accesses


def _step(policy: str, stream: str, setup: Setup) -> Step:
    player = program("play_stream")
    command = f"""
	fresh_cgroup {setup.cgroup_bytes}
	policy {policy}
	taskset --cpu-list 0 {player} --file {FILE} --stream {setup.streams[stream]} --cgroup $BENCH \\
		--warmup {setup.warmup}
	[ ! -e $BENCH/memory.cache_ext ] || cat $BENCH/memory.cache_ext >&2
"""
    return Step(f"{policy}.{stream}", command)


def resident_pages(lines: Lines) -> float:
    """Mean over the measured part, without making the kernel bring its statistics up to date.

    memory.current is cheap to read and holds more than file pages; how much more is known from
    the end, when both are read.
    """
    others: int = lines.end["memory.current"] - lines.end["memory.stat"]["file"]
    current = mean(int(tick["memory.current"]) for tick in lines.ticks)
    return (current - others) / PAGE_BYTES


def was_ejected(lines: Lines) -> str | None:
    """Why the kernel ejected the policy, if it did."""
    state = lines.end.get("memory.cache_ext", {})
    if state.get("ejections", 0) > lines.start.get("memory.cache_ext", {}).get("ejections", 0):
        return str(state.get("reason", "ejected"))
    return None


def _play(policy: str, stream: str, lines: Lines) -> Play:
    reason = was_ejected(lines)
    if reason is not None:
        raise GuestError(f"{policy}.{stream}: the kernel ejected the policy: {reason}")
    misses, refused_share = lines.block_read_pages, 0.0
    if policy not in NATIVE:
        misses = lines.measured(lambda line: line["memory.cache_ext"]["added"])
        refused = lines.measured(lambda line: line["memory.cache_ext"]["rejected_busy"])
        proposed = lines.measured(lambda line: line["memory.cache_ext"]["proposed_pages"])
        refused_share = refused / max(proposed, 1)
    return Play(
        policy=policy,
        stream=stream,
        accesses=int(lines.measured(lambda line: line["accesses"])),
        misses=int(misses),
        block_read_pages=lines.block_read_pages,
        resident_pages=resident_pages(lines),
        accesses_per_second=lines.accesses_per_second,
        refused_share=refused_share,
    )


def played(
    guest: Guest,
    policies: Sequence[str],
    setup: Setup,
    step: Callable[[str, str, Setup], Step],
    read: Callable[[str, str, Lines], Of],
    play_now: bool,
) -> list[Of]:
    """Every policy on every stream; plays that failed are missing and were named.

    `step` makes a play of a policy and a stream, `read` takes what it printed. With `play_now` off,
    the plays of the last run are read once more.
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
    """`played` of eviction policies."""
    return played(guest, policies, setup, _step, _play, play_now)
