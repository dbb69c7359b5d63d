# SPDX-License-Identifier: Apache-2.0
"""Play the streams through the named policies, all by default, and compare kernel and simulator."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.kernel_guest import streams
from experiments.kernel_guest.guest_run import Guest, say
from experiments.shared.rows import ROOT, commit, machine, merge

from cachepilot import manifest
from cachepilot.vm import Machine

from . import readahead, replay, report
from .cells import merge_cells
from .plays import FILE, NATIVE, PAGE_BYTES, Setup, play_all

EXPERIMENT = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "conformance"
COMMAND = "make bench-kernel"
FULL = streams.Shape(pages=32768, accesses=90_000)
QUICK = streams.Shape(pages=8192, accesses=40_000)


def _readahead_policies() -> list[str]:
    names = [readahead.KERNEL, *manifest.policies(manifest.Kind.READAHEAD)]
    return [f"{readahead.PREFIX}{name}" for name in names]


def _policies() -> list[str]:
    return [*NATIVE, *manifest.attachable(), *_readahead_policies()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="POLICY", help="a policy, default or mglru.native"
    )
    parser.add_argument("--kernel", default="patched", choices=("patched", "stock"))
    parser.add_argument("--streams", help="streams to play, separated by commas (default: all)")
    parser.add_argument(
        "--replay",
        action="store_true",
        help="only simulate the plays of the last run again",
    )
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in _policies():
            parser.error(f"unknown policy {name!r} (known: {', '.join(_policies())})")
    known = {**streams.STREAMS, **streams.READAHEAD_STREAMS}
    arguments.streams = arguments.streams.split(",") if arguments.streams else [*known]
    for name in arguments.streams:
        if name not in known:
            parser.error(f"unknown stream {name!r} (known: {', '.join(known)})")
    return arguments


@dataclass(frozen=True)
class Run:
    """What is played with one kind of policy, and where the results go."""

    names: Sequence[str]
    streams: dict[str, streams.Pages]
    setup: Setup
    guest: Guest
    folder: Path
    play_now: bool


def _run(
    arguments: argparse.Namespace,
    names: Sequence[str],
    makers: dict[str, Callable[[streams.Shape], streams.Pages]],
    guest_name: str,
) -> Run:
    shape = QUICK if arguments.quick else FULL
    folder: Path = arguments.out or (BUILD / "quick" if arguments.quick else EXPERIMENT)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {name: makers[name](shape) for name in makers if name in arguments.streams}
    setup = Setup(
        cgroup_bytes=shape.cache_pages * PAGE_BYTES,
        file_bytes=shape.pages * PAGE_BYTES,
        warmup=shape.accesses // 3,
        streams={
            name: streams.write(name, pages, BUILD / "streams") for name, pages in chosen.items()
        },
    )
    guest = Guest(
        Machine(kernel=arguments.kernel, timeout_seconds=3600),
        BUILD / (f"{guest_name}-quick" if arguments.quick else guest_name),
        prepare=[f"make_file {FILE} {setup.file_bytes}"],
    )
    return Run(names, chosen, setup, guest, folder, play_now=not arguments.replay)


def _origin() -> dict[str, str]:
    return {"command": COMMAND, "commit": commit(), "machine": machine()}


def _evict(run: Run) -> bool:
    """Play eviction policies. Return whether all of them were played."""
    plays = play_all(run.guest, run.names, run.setup, run.play_now)
    cells = [
        report.Cell(
            play.policy,
            play.stream,
            round(play.miss_ratio, 6),
            round(replay.miss_ratio(play, run.streams[play.stream]), 6),
            replay.mean_pages(play),
            play.accesses,
            int(play.block_read_pages),
        )
        for play in plays
    ]
    merged = merge_cells(run.folder / "cells.json", cells, report.Cell)
    played = {cell.policy for cell in cells}
    of_run = [cell for cell in merged if cell.policy in played]
    rows = report.rows(of_run, [*streams.STREAMS])
    merge(run.folder / "results.json", rows, _origin())
    report.write_table(merged, run.folder / "table.md")
    report.plot(merged, run.folder / "conformance.svg")
    for cell in cells:
        say(
            f"{cell.policy:>14} {cell.stream:<13} {cell.kernel:.4f} {cell.simulated:.4f} "
            f"{cell.difference:+.4f} of {cell.cache_pages}"
        )
    return len(cells) == len(run.names) * len(run.streams)


def _read_ahead(run: Run) -> bool:
    """Play readahead policies. Return whether all of them were played."""
    names = [name.removeprefix(readahead.PREFIX) for name in run.names]
    plays = readahead.play_all(run.guest, names, run.setup, run.play_now)
    file_pages = run.setup.file_bytes // PAGE_BYTES
    cells = [readahead.cell(play, run.streams[play.stream], file_pages) for play in plays]
    merged = merge_cells(run.folder / "readahead_cells.json", cells, readahead.Cell)
    played = {cell.policy for cell in cells}
    of_run = [cell for cell in merged if cell.policy in played]
    rows = readahead.rows(of_run, [*streams.READAHEAD_STREAMS])
    merge(run.folder / "results.json", rows, _origin())
    report.write_readahead_table(merged, run.folder / "readahead_table.md")
    for cell in cells:
        say(
            f"{cell.policy:>8} {cell.stream:<12} {cell.kernel:.4f} {cell.simulated:.4f} "
            f"{cell.difference:+.4f}, used {cell.kernel_used:.4f} {cell.simulated_used:.4f}, "
            f"wasted {cell.kernel_wasted:.4f} {cell.simulated_wasted:.4f}"
        )
    return len(cells) == len(names) * len(run.streams)


def main() -> int:
    """Return 0 when everything that was named has been played."""
    arguments = _arguments()
    names = arguments.names or _policies()
    reading = [name for name in names if name in _readahead_policies()]
    evicting = [name for name in names if name not in reading]
    done = True
    if evicting:
        done = _evict(_run(arguments, evicting, streams.STREAMS, "guest"))
    if reading:
        run = _run(arguments, reading, streams.READAHEAD_STREAMS, "guest-readahead")
        done = _read_ahead(run) and done
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
