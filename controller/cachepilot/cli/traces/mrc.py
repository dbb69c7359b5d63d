# SPDX-License-Identifier: Apache-2.0
"""`cachepilot mrc`: miss ratio curves of one trace."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from cachepilot import _models
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Report, Reporter
from cachepilot.cli.terminal.reading import reads_traces
from cachepilot.errors import InputError
from cachepilot.manifest import OPT, select
from cachepilot.sizes import PAGE_BYTES, human_bytes, human_pages

DEFAULT_SMAX_PAGES = 8192
MAX_POINTS = 10_000
MAX_SMAX_PAGES = (1 << 32) - 1
TABLE_SIZES = 10
SPARKLINE_WIDTH = 16
FIXED_COLUMNS = 34
"""Characters for the policy, its method and the error bar."""
SIZE_COLUMNS = 12
"""Characters for one cache size."""


class Method(StrEnum):
    """How a curve is computed."""

    EXACT = "exact"
    SHARDS = "shards"
    MINISIM = "minisim"


@dataclass(frozen=True)
class Request:
    """The settings of every curve of one command.

    `rate` is in (0, 1]; at most one of `rate` and `smax` (pages in the sample) is not None;
    `half_life` is in requests.
    """

    trace: Path
    sizes_pages: NDArray[np.uint64]
    rate: float | None
    smax: int | None
    half_life: float | None
    reading: _models.TraceOptions
    seed: int
    threads: int


def assign_methods(names: list[str], method: Method | None) -> dict[Method, list[str]]:
    """Return the policies by the method of their curve, in the given order.

    Without a method: SHARDS for lru, stack distances for opt (which looks ahead and so cannot be
    sampled), miniature simulation for every other policy.
    """
    assigned: dict[Method, list[str]] = {}
    defaults = {"lru": Method.SHARDS, OPT: Method.EXACT}
    for name in names:
        chosen = method or defaults.get(name, Method.MINISIM)
        if chosen is Method.SHARDS and name != "lru":
            raise InputError(
                f"--method shards: models lru only, not {name} (allowed for it: exact, minisim)"
            )
        if chosen is Method.MINISIM and name == OPT:
            raise InputError("--method minisim: opt looks ahead (allowed for it: exact)")
        assigned.setdefault(chosen, []).append(name)
    return assigned


def check_sampling(
    assigned: dict[Method, list[str]],
    rate: float | None,
    smax: int | None,
    half_life: float | None,
) -> None:
    """Refuse sampling options that contradict each other or the method."""
    if rate is not None and smax is not None:
        raise InputError("--rate and --smax: give one of the two")
    if rate is not None and not 0 < rate <= 1:
        raise InputError(f"--rate {rate}: must be in (0, 1]")
    if smax is not None and not 1 <= smax <= MAX_SMAX_PAGES:
        raise InputError(f"--smax {smax}: must be 1 to {MAX_SMAX_PAGES} pages")
    if half_life is not None and not 0 < half_life < float("inf"):
        raise InputError(f"--half-life {half_life}: must be a positive number of requests")
    given = {"--rate": rate, "--smax": smax, "--half-life": half_life}
    name = next((name for name, value in given.items() if value is not None), None)
    if half_life is not None and Method.EXACT in assigned:
        unaged = ", ".join(assigned[Method.EXACT])
        raise InputError(f"--half-life: exact curves weigh all requests the same ({unaged})")
    if name and set(assigned) == {Method.EXACT}:
        raise InputError(f"{name}: needs sampling (--method shards or minisim), not exact")


@reads_traces
def command(
    trace: options.TraceArgument,
    reading: _models.TraceOptions,
    policy: options.PolicyOption = "all",
    method: Annotated[
        Method | None,
        typer.Option(
            help="exact: no sampling; shards: SHARDS, for lru; minisim: miniature simulation. "
            "Default: shards for lru, exact for opt, minisim for every other policy. Policies are "
            "asked for 32 folios per request, as by the kernel; lru by shards or exact, and opt, "
            "evict one at a time.",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="R", help="Share of pages to sample, in (0, 1].")
    ] = None,
    smax: Annotated[
        int | None,
        typer.Option(metavar="N", help="Most pages in the sample. [default: 8192, without --rate]"),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(metavar="REQUESTS", help="Age at which a request weighs half. [default: all]"),
    ] = None,
    points: Annotated[int, typer.Option(help="Sizes on the curve.")] = 50,
    plot: options.PlotOption = None,
    seed: options.SeedOption = 1,
    threads: options.ThreadsOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Compute miss ratio curves."""
    if not 2 <= points <= MAX_POINTS:
        raise InputError(f"--points {points}: must be 2 to {MAX_POINTS}")
    options.check_plot(plot)
    names = select(policy)
    assigned = assign_methods(names, method)
    check_sampling(assigned, rate, smax, half_life)
    if rate is None and smax is None:
        smax = DEFAULT_SMAX_PAGES
    with Reporter() as reporter:
        requests, pages = options.footprint(trace, reading, reporter)
        grid = _models.size_grid(pages, points)
        asked = Request(trace, grid, rate, smax, half_life, reading, seed, threads)
        curves = _curves(asked, assigned, names, reporter)
    if plot is not None:
        from cachepilot.cli.traces.plots import plot_curves  # noqa: PLC0415  half a second to import

        plot_curves(curves, trace.name, plot)
    if as_json:
        tables.print_json([as_object(trace, curve) for curve in curves])
        return
    out = tables.console()
    out.print(f"{trace.name}: {requests:,} requests, footprint {human_pages(pages)}")
    _print_table(curves)
    out.print(f"Plot: {plot}" if plot else "Every point: --json; a picture: --plot mrc.svg")


def _curves(
    asked: Request, assigned: dict[Method, list[str]], names: list[str], reporter: Reporter
) -> list[_models.Curve]:
    found: dict[str, _models.Curve] = {}
    for method, policies in assigned.items():
        with reporter.stage(f"{method} curves of {asked.trace.name}") as report:
            for curve in _by_method(method, policies, asked, report):
                found[curve.policy] = curve
    return [found[name] for name in names]


def _by_method(
    method: Method, policies: list[str], asked: Request, report: Report | None
) -> list[_models.Curve]:
    path = str(asked.trace)
    if method is Method.EXACT:
        return _models.mrc_exact(
            path,
            asked.sizes_pages,
            policies,
            seed=asked.seed,
            options=asked.reading,
            threads=asked.threads,
            progress=report,
        )
    if method is Method.SHARDS:
        curve = _models.mrc_shards(
            path,
            asked.sizes_pages,
            rate=asked.rate,
            smax=asked.smax,
            half_life=asked.half_life,
            options=asked.reading,
            progress=report,
        )
        return [curve]
    return _models.mrc_minisim(
        path,
        asked.sizes_pages,
        policies,
        rate=asked.rate,
        smax=asked.smax,
        half_life=asked.half_life,
        seed=asked.seed,
        options=asked.reading,
        threads=asked.threads,
        progress=report,
    )


def as_object(trace: Path, curve: _models.Curve) -> dict[str, Any]:
    """Return a curve as JSON values; the four arrays have equal length."""
    return {
        "trace": str(trace),
        "policy": curve.policy,
        "method": curve.method,
        "rate": curve.rate,
        "sizes_pages": curve.sizes_pages.tolist(),
        "miss_ratio": curve.miss_ratio.tolist(),
        "stderr": curve.stderr.tolist(),
        "error_bar": curve.error_bar().tolist(),
        "requests": curve.requests,
        "sampled": curve.sampled,
        "seconds": curve.seconds,
    }


def _print_table(curves: list[_models.Curve]) -> None:
    sizes = curves[0].sizes_pages
    out = tables.console()
    wide = out.width >= tables.WIDE_COLUMNS
    fixed = FIXED_COLUMNS + (SPARKLINE_WIDTH + 3 if wide else 0)
    count = max(2, min(TABLE_SIZES, len(sizes), (out.width - fixed) // SIZE_COLUMNS))
    picked = np.unique(np.linspace(0, len(sizes) - 1, count).round().astype(int))
    table = tables.new_table("miss ratio by cache size, in pages and bytes")
    tables.add_columns(table, ["policy", "method"], "left")
    headings = [f"{int(sizes[i]):,}\n{human_bytes(int(sizes[i]) * PAGE_BYTES)}" for i in picked]
    tables.add_columns(table, [*headings, "±"])
    if wide:
        tables.add_columns(table, ["curve"], "left")
    least = np.min([curve.miss_ratio[picked] for curve in curves], axis=0)
    for curve in sorted(curves, key=lambda curve: float(curve.miss_ratio.mean())):
        values = curve.miss_ratio[picked]
        cells = [
            tables.best(f"{value:.4f}", bool(value == low))
            for value, low in zip(values, least, strict=True)
        ]
        bar = float(np.nan_to_num(curve.error_bar()).max())
        error = f"{bar:.4f}" if bar else ""
        row: list[str | Text] = [curve.policy, curve.method, *cells, error, _sparkline(curve)]
        table.add_row(*row[: len(table.columns)])
    out.print(table)
    sampled = [curve for curve in curves if curve.rate < 1]
    if sampled:
        rates = sorted({f"{curve.rate:.3g}" for curve in sampled})
        requests = min(curve.sampled for curve in sampled)
        out.print(
            f"sampled at a rate of {' and '.join(rates)} ({requests:,} requests or more); "
            "±: the widest 95% error bar of the curve"
        )


def _sparkline(curve: _models.Curve) -> str:
    sizes = curve.sizes_pages.astype(np.float64)
    at = np.linspace(sizes[0], sizes[-1], SPARKLINE_WIDTH)
    return tables.sparkline(np.interp(at, sizes, curve.miss_ratio).tolist())
