# SPDX-License-Identifier: Apache-2.0
"""`cachepilot sim`: policies at given sizes over one trace."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cachepilot import _models
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Reporter
from cachepilot.cli.terminal.reading import reads_traces
from cachepilot.cli.traces.windows import print_windows, windows_object
from cachepilot.manifest import parse_settings, select
from cachepilot.sizes import human_pages, parse_requests, parse_sizes


@reads_traces
def command(
    trace: options.TraceArgument,
    reading: _models.TraceOptions,
    policy: options.PolicyOption = "all",
    size: Annotated[
        str, typer.Option(metavar="SIZE[,SIZE...]", help=f"{options.SIZE_HELP}.")
    ] = "0.10",
    batch: options.BatchOption = 32,
    settings: options.SettingsOption = None,
    seed: options.SeedOption = 1,
    threads: options.ThreadsOption = 0,
    warmup: Annotated[
        str,
        typer.Option(
            metavar="REQUESTS",
            help="Requests at the start that fill the cache and do not count: a number, or a share "
            "of the trace (0.2 or 20%).",
        ),
    ] = "0",
    window: Annotated[
        str | None,
        typer.Option(
            metavar="REQUESTS",
            help="Also tell the miss ratio of each run of so many requests (a number or a share).",
        ),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Simulate policies at a cache size."""
    names = select(policy)
    sizes = parse_sizes(size)
    tunables = parse_settings(settings or [], names)
    with Reporter() as reporter:
        requests, pages = options.footprint(trace, reading, reporter)
        sizes_pages = sorted({size.resolve_pages(pages, str(trace)) for size in sizes})
        warmup_requests = parse_requests(warmup, requests)
        window_requests = None if window is None else parse_requests(window, requests)
        with reporter.stage(f"simulating {trace.name}") as report:
            results = _models.simulate(
                str(trace),
                names,
                sizes_pages,
                batch=batch,
                seed=seed,
                tunables=tunables,
                options=reading,
                warmup_requests=warmup_requests,
                window_requests=window_requests,
                threads=threads,
                progress=report,
            )
    if as_json:
        tables.print_json([as_object(trace, result) for result in results])
        return
    out = tables.console()
    out.print(f"{trace.name}: {requests:,} requests, footprint {human_pages(pages)}")
    if warmup_requests:
        out.print(f"the first {warmup_requests:,} requests are a warm-up and do not count")
    for size_pages in sizes_pages:
        rows = [row for row in results if row.size_pages == size_pages]
        _print_table(size_pages, rows)
        if window_requests is not None:
            print_windows(rows, window_requests)


def as_object(trace: Path, result: _models.SimResult) -> dict[str, Any]:
    """Return a result as JSON values; counts are in pages, `seconds` is the simulation's time."""
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
        **windows_object(result),
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
