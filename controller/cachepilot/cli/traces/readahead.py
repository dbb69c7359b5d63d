# SPDX-License-Identifier: Apache-2.0
"""`cachepilot readahead`: readahead policies over one recorded trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cachepilot import _models
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Reporter
from cachepilot.errors import InputError
from cachepilot.manifest import Kind, find, parse_settings, select
from cachepilot.sizes import human_pages, parse_size

LEAST_PAGES = 4
MOST_WINDOW_PAGES = 1 << 18
FIELDS = (
    "policy",
    "eviction",
    "size_pages",
    "reads",
    "writes",
    "misses",
    "miss_ratio",
    "waits",
    "disk_reads",
    "disk_pages",
    "ahead_pages",
    "used_pages",
    "wasted_pages",
    "pending_pages",
    "own_ahead_pages",
    "own_used_pages",
    "own_wasted_pages",
    "own_pending_pages",
    "asked",
    "declined",
    "seconds",
)


def command(
    trace: options.TraceArgument,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME[,NAME...]", help="Readahead policies, or 'all' for every folder of one."
        ),
    ] = "all",
    evict: Annotated[
        str, typer.Option(metavar="NAME", help="Eviction policy of the cache.")
    ] = "kernel_lru",
    size: Annotated[str, typer.Option(metavar="SIZE", help=f"{options.SIZE_HELP}.")] = "0.10",
    window: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_WINDOW_PAGES,
            help="Largest window of the kernel, pages: read_ahead_kb of the device, of 4 KiB.",
        ),
    ] = 32,
    batch: options.BatchOption = 32,
    settings: options.SettingsOption = None,
    seed: options.SeedOption = 1,
    threads: options.ThreadsOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Simulate readahead policies over a recorded trace (.cptrace)."""
    names = select(policy, Kind.READAHEAD)
    find(evict)
    tunables = parse_settings(settings or [], names, Kind.READAHEAD)
    wanted = parse_size(size)
    with Reporter() as reporter:
        requests, pages = options.footprint(trace, None, reporter)
        size_pages = wanted.resolve_pages(pages, str(trace))
        if size_pages < LEAST_PAGES:
            raise InputError(
                f"--size {size}: {size_pages} pages of a footprint of {pages} are too few for "
                f"readahead (allowed: {LEAST_PAGES} or more)"
            )
        with reporter.stage(f"simulating {trace.name}") as report:
            results = _models.simulate_readahead(
                str(trace),
                names,
                evict,
                size_pages,
                max_window_pages=window,
                batch=batch,
                seed=seed,
                tunables=tunables,
                threads=threads,
                progress=report,
            )
    if as_json:
        tables.print_json([as_object(trace, window, result) for result in results])
        return
    out = tables.console()
    out.print(f"{trace.name}: {requests:,} requests, footprint {human_pages(pages)}")
    title = f"size {human_pages(size_pages)}, {evict} evicts, windows up to {window} pages"
    _print_table(title, results)


def as_object(trace: Path, window: int, result: _models.ReadaheadResult) -> dict[str, Any]:
    """Return a result as JSON values; `seconds` is the simulation's time."""
    about: dict[str, Any] = {"trace": str(trace), "max_window_pages": window}
    return about | {name: getattr(result, name) for name in FIELDS}


def _print_table(title: str, results: Sequence[_models.ReadaheadResult]) -> None:
    table = tables.new_table(title)
    tables.add_columns(table, ["policy"], "left")
    out = tables.console()
    names = ["miss ratio", "waits", "ahead", "used", "wasted", "pending", "disk reads", "pages"]
    tables.add_columns(table, names if out.width >= tables.WIDE_COLUMNS else names[:6])
    tables.add_ranked(table, results, _cells)
    out.print(table)


def _cells(row: _models.ReadaheadResult) -> list[str]:
    return [
        f"{row.waits:,}",
        f"{row.ahead_pages:,}",
        f"{row.used_pages:,}",
        f"{row.wasted_pages:,}",
        f"{row.pending_pages:,}",
        f"{row.disk_reads:,}",
        f"{row.disk_pages:,}",
    ]
