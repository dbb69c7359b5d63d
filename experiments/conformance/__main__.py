# SPDX-License-Identifier: Apache-2.0
"""Plays the streams through the policies that are named, all by default, and compares."""

import argparse
import sys
from pathlib import Path

from experiments.kernel_guest import streams
from experiments.kernel_guest.guest_run import Guest, say
from experiments.shared.rows import ROOT, commit, machine, merge

from cachepilot import manifest
from cachepilot.vm import Machine

from . import replay, report
from .plays import FILE, NATIVE, PAGE_BYTES, Setup, play_all

EXPERIMENT = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "conformance"
COMMAND = "make bench-kernel"
FULL = streams.Shape(pages=32768, accesses=90_000)
QUICK = streams.Shape(pages=8192, accesses=40_000)


def _policies() -> list[str]:
    return [*NATIVE, *manifest.attachable()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="POLICY", help="default and mglru.native too")
    parser.add_argument("--kernel", default="patched", choices=("patched", "stock"))
    parser.add_argument("--streams", default=",".join(streams.STREAMS))
    parser.add_argument(
        "--replay",
        action="store_true",
        help="play nothing, simulate the plays of the last run anew",
    )
    parser.add_argument("--out", type=Path, help="folder for what is written")
    parser.add_argument("--quick", action="store_true", help="small; written to build/")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in _policies():
            parser.error(f"unknown policy {name!r} (known: {', '.join(_policies())})")
    return arguments


def main() -> int:
    """0 when everything that was named was played."""
    arguments = _arguments()
    shape = QUICK if arguments.quick else FULL
    folder: Path = arguments.out or (BUILD / "quick" if arguments.quick else EXPERIMENT)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {name: streams.STREAMS[name](shape) for name in arguments.streams.split(",")}
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
        BUILD / ("guest-quick" if arguments.quick else "guest"),
        prepare=[f"make_file {FILE} {setup.file_bytes}"],
    )
    names = arguments.names or _policies()
    plays = play_all(guest, names, setup, play_now=not arguments.replay)
    cells = [
        report.Cell(
            play.policy,
            play.stream,
            round(play.miss_ratio, 6),
            round(replay.miss_ratio(play, chosen[play.stream]), 6),
            replay.capacity_pages(play),
            play.accesses,
            int(play.block_read_pages),
        )
        for play in plays
    ]
    merged = report.merge_cells(folder / "cells.json", cells)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    played = {cell.policy for cell in cells}
    rows = [
        row for row in report.rows([cell for cell in merged if cell.policy in played], [*chosen])
    ]
    merge(folder / "results.json", rows, origin)
    report.write_table(merged, folder / "table.md")
    report.plot(merged, folder / "conformance.svg")
    for cell in cells:
        say(
            f"{cell.policy:>14} {cell.stream:<13} {cell.kernel:.4f} {cell.simulated:.4f} "
            f"{cell.difference:+.4f} of {cell.cache_pages}"
        )
    return 0 if len(cells) == len(names) * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
