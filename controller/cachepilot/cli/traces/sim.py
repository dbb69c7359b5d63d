# SPDX-License-Identifier: Apache-2.0
"""`cachepilot sim`: policies at given sizes over one trace."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cachepilot import _models
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Reporter
from cachepilot.manifest import parse_settings, select
from cachepilot.sizes import human_pages, parse_sizes


def command(
    trace: options.TraceArgument,
    policy: options.PolicyOption = "all",
    size: Annotated[
        str, typer.Option(metavar="SIZE[,SIZE...]", help=f"{options.SIZE_HELP}.")
    ] = "0.10",
    batch: options.BatchOption = 32,
    settings: options.SettingsOption = None,
    seed: options.SeedOption = 1,
    threads: options.ThreadsOption = 0,
    column: options.ColumnOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Simulate policies at a cache size."""
    names = select(policy)
    sizes = parse_sizes(size)
    tunables = parse_settings(settings or [], names)
    with Reporter() as reporter:
        requests, pages = options.footprint(trace, column, reporter)
        sizes_pages = sorted({size.resolve_pages(pages, str(trace)) for size in sizes})
        with reporter.stage(f"simulating {trace.name}") as report:
            results = _models.simulate(
                str(trace),
                names,
                sizes_pages,
                batch=batch,
                seed=seed,
                tunables=tunables,
                column=column,
                threads=threads,
                progress=report,
            )
    if as_json:
        tables.print_json([as_object(trace, result) for result in results])
        return
    out = tables.console()
    out.print(f"{trace.name}: {requests:,} requests, footprint {human_pages(pages)}")
    for size_pages in sizes_pages:
        _print_table(size_pages, [row for row in results if row.size_pages == size_pages])


def as_object(trace: Path, result: _models.SimResult) -> dict[str, Any]:
    """One result as plain JSON values; counts are of pages, `seconds` of simulation."""
    return {
        "trace": str(trace),
        "policy": result.policy,
        "size_pages": result.size_pages,
        "batch": result.batch,
        "requests": result.requests,
        "misses": result.misses,
        "miss_ratio": result.miss_ratio,
        "evictions": result.evictions,
        "fallbacks": result.fallbacks,
        "rejected": result.rejected,
        "seconds": result.seconds,
        "bytes_per_page": result.bytes_per_page,
    }


def _print_table(size_pages: int, results: list[_models.SimResult]) -> None:
    batches = sorted({result.batch for result in results})
    asked = " or ".join(str(batch) for batch in batches)
    table = tables.new_table(f"size {human_pages(size_pages)}, {asked} per eviction request")
    tables.add_columns(table, ["policy"], "left")
    out = tables.console()
    names = ["miss ratio", "misses", "evictions", "Mreq/s", "seconds", "fallbacks"]
    tables.add_columns(table, names if out.width >= tables.WIDE_COLUMNS else names[:4])
    tables.add_ranked(table, results, _cells)
    out.print(table)


def _cells(row: _models.SimResult) -> list[str]:
    return [
        f"{row.misses:,}",
        f"{row.evictions:,}",
        f"{row.requests / row.seconds / 1e6:.1f}" if row.seconds > 0 else "",
        f"{row.seconds:.3f}",
        f"{row.fallbacks:,}",
    ]
