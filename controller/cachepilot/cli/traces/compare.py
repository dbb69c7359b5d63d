# SPDX-License-Identifier: Apache-2.0
"""`cachepilot compare`: every policy on several traces, and the cost of choosing by curves."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.columns import Columns
from rich.table import Table

from cachepilot import _models
from cachepilot.choice import Cell, Regret, choice_rate, regrets
from cachepilot.cli.terminal import options, tables
from cachepilot.cli.terminal.progress import Reporter
from cachepilot.cli.terminal.reading import reads_traces
from cachepilot.cli.traces.sim import as_object
from cachepilot.errors import InputError
from cachepilot.manifest import OPT, select
from cachepilot.sizes import PAGE_BYTES, human_bytes, human_pages, parse_sizes


@dataclass(frozen=True)
class Settings:
    """Settings for every trace of one comparison; `policies` may include opt, as a bound."""

    policies: list[str]
    batch: int
    seed: int
    threads: int
    reading: _models.TraceOptions

    @property
    def candidates(self) -> list[str]:
        """The policies that may be chosen."""
        return [name for name in self.policies if name != OPT]


@dataclass(frozen=True)
class Comparison:
    """One trace: full simulation at each size, and the sampling rate of its curves."""

    trace: Path
    requests: int
    footprint_pages: int
    rate: float
    sizes_pages: list[int]
    results: list[_models.SimResult]
    cells: list[Cell]


@reads_traces
def command(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Trace files.")],
    reading: _models.TraceOptions,
    sizes: Annotated[
        str, typer.Option(metavar="SIZE,...", help=f"{options.SIZE_HELP}; comma-separated.")
    ] = "0.01,0.1,0.3",
    policy: options.PolicyOption = "all",
    batch: options.BatchOption = 32,
    plot: options.PlotOption = None,
    seed: options.SeedOption = 1,
    threads: options.ThreadsOption = 0,
    as_json: options.JsonOption = False,
) -> None:
    """Compare policies on several traces.

    Every policy is simulated on every trace at each size. Then one is chosen per trace and size:
    the choice is made by miss ratio curves of miniature simulations that keep at least 2,048
    pages of each trace; regret is its miss ratio above that of the best policy in hindsight.
    """
    options.check_plot(plot)
    wanted = parse_sizes(sizes)
    settings = Settings(select(policy), batch, seed, threads, reading)
    if not settings.candidates:
        raise InputError("--policy opt: is a bound, not a choice; name a policy beside it")
    with Reporter() as reporter:
        footprints = [options.footprint(trace, reading, reporter) for trace in traces]
        grids = [
            sorted({size.resolve_pages(pages, str(trace)) for size in wanted})
            for trace, (_, pages) in zip(traces, footprints, strict=True)
        ]
        compared = [
            _compare(trace, grid, seen, settings, reporter)
            for trace, grid, seen in zip(traces, grids, footprints, strict=True)
        ]
    cells = [cell for comparison in compared for cell in comparison.cells]
    rows = regrets(cells)
    if plot is not None:
        from cachepilot.cli.traces.plots import plot_comparison  # noqa: PLC0415  half a second to import

        plot_comparison(cells, plot)
    if as_json:
        tables.print_json(_as_object(compared, rows))
        return
    _print_comparisons(compared, settings.policies)
    _print_choices(compared)
    _print_regrets(rows)
    if plot is not None:
        tables.console().print(f"Plot: {plot}")


def _compare(
    trace: Path,
    sizes_pages: list[int],
    seen: tuple[int, int],
    settings: Settings,
    reporter: Reporter,
) -> Comparison:
    requests, pages = seen
    rate = choice_rate(pages)
    with reporter.stage(f"simulating {trace.name}") as report:
        results = _models.simulate(
            str(trace),
            settings.policies,
            sizes_pages,
            batch=settings.batch,
            seed=settings.seed,
            options=settings.reading,
            threads=settings.threads,
            progress=report,
        )
    with reporter.stage(f"curves of {trace.name}") as report:
        curves = _models.mrc_minisim(
            str(trace),
            np.array(sizes_pages, dtype=np.uint64),
            settings.candidates,
            rate=rate,
            seed=settings.seed,
            options=settings.reading,
            threads=settings.threads,
            progress=report,
        )
    measured = {(result.policy, result.size_pages): result.miss_ratio for result in results}
    cells = [
        Cell(
            trace=trace_name(trace),
            size_pages=size,
            measured={name: measured[name, size] for name in settings.candidates},
            predicted={curve.policy: float(curve.miss_ratio[i]) for curve in curves},
        )
        for i, size in enumerate(sizes_pages)
    ]
    return Comparison(trace, requests, pages, rate, sizes_pages, results, cells)


def trace_name(trace: Path) -> str:
    """Return the file name without any of its suffixes."""
    return trace.name.split(".", maxsplit=1)[0] or trace.name


def _as_object(compared: list[Comparison], rows: list[Regret]) -> dict[str, Any]:
    return {
        "results": [as_object(c.trace, result) for c in compared for result in c.results],
        "choices": [
            {
                "trace": str(comparison.trace),
                "size_pages": cell.size_pages,
                "rate": comparison.rate,
                "chosen": cell.chosen,
                "best": cell.best,
                "regret": cell.regret(cell.chosen),
            }
            for comparison in compared
            for cell in comparison.cells
        ],
        "regret": [asdict(row) for row in rows],
    }


def _mean_ratio(name: str, compared: list[Comparison]) -> float:
    ratios = [r.miss_ratio for c in compared for r in c.results if r.policy == name]
    return sum(ratios) / len(ratios)


def _print_comparisons(compared: list[Comparison], names: list[str]) -> None:
    order = sorted(names, key=lambda name: _mean_ratio(name, compared))
    blocks = []
    for comparison in compared:
        table = tables.new_table(comparison.cells[0].trace)
        tables.add_columns(table, ["policy"], "left")
        for size in comparison.sizes_pages:
            tables.add_columns(table, [f"{size:,}\n{human_bytes(size * PAGE_BYTES)}"])
        ratios = {(r.policy, r.size_pages): r.miss_ratio for r in comparison.results}
        least = {cell.size_pages: cell.measured[cell.best] for cell in comparison.cells}
        for name in order:
            fields = [(ratios[name, size], least[size]) for size in comparison.sizes_pages]
            texts = [
                tables.best(f"{ratio:.4f}", name != OPT and ratio == low) for ratio, low in fields
            ]
            table.add_row(name, *texts)
        blocks.append(table)
    out = tables.console()
    out.print("Miss ratio by cache size in pages and bytes; the best policy in bold.")
    out.print(Columns(blocks, padding=(0, 3)))


def _print_choices(compared: list[Comparison]) -> None:
    table = tables.new_table("choice by curves against the best in hindsight")
    tables.add_columns(table, ["trace"], "left")
    tables.add_columns(table, ["size"])
    tables.add_columns(table, ["sampled at"])
    tables.add_columns(table, ["chosen", "best"], "left")
    tables.add_columns(table, ["regret"])
    for comparison in compared:
        for cell in comparison.cells:
            regret = cell.regret(cell.chosen)
            table.add_row(
                cell.trace,
                human_pages(cell.size_pages),
                f"{comparison.rate:.4f}",
                cell.chosen,
                tables.best(cell.chosen if regret == 0 else cell.best, True),
                f"{regret:.5f}",
            )
    tables.console().print(table)


def _print_regrets(rows: list[Regret]) -> None:
    table: Table = tables.new_table("regret: miss ratio above the best policy in hindsight")
    tables.add_columns(table, ["choice"], "left")
    tables.add_columns(table, ["mean", "worst"])
    tables.add_columns(table, ["worst at"], "left")
    least = min(row.mean for row in rows)
    for row in rows:
        table.add_row(
            row.strategy,
            tables.best(f"{row.mean:.5f}", row.mean == least),
            f"{row.worst:.5f}",
            f"{row.worst_trace}, {human_pages(row.worst_size_pages)}",
        )
    tables.console().print(table)
