# SPDX-License-Identifier: Apache-2.0
"""Simulate the autopilot's candidate policies with other tunables, on all traces and four sizes."""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.rows import ROOT, Row, commit, machine, merge

from cachepilot import _models
from cachepilot.manifest import policies

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/variants/run"
DEFAULT_MODEL = "kernel_lru"
SHARES = (0.01, 0.03, 0.10, 0.30)
PAGES_MIN = 64
REQUESTS_MAX = 2_000_000
MARGIN = 0.002
"""A policy is the sole best of a cell if its miss ratio is below all others by more than this."""
TRIED: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "s3fifo": (
        *({"small_pct": value} for value in (1, 3, 20, 40, 70)),
        *({"promote_accesses": value} for value in (1, 3)),
        {"small_pct": 40, "promote_accesses": 1},
        {"small_pct": 2, "promote_accesses": 1},
    ),
    "wtinylfu": (
        *({"window_pct": value} for value in (1, 15, 30, 50, 80)),
        *({"protected_pct": value} for value in (20, 50)),
    ),
    "twoq": tuple({"incoming_pct": value} for value in (5, 10, 50, 75)),
}
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Variants of policies: results

Written by `experiments/variants/run` from `results.json`; README.md says what is measured.
"""

Cell = Mapping[str, float]
"""Miss ratio by policy or variant, of one trace at one size."""


def name_of(policy: str, tunables: Mapping[str, int]) -> str:
    """Return a variant as a part of the name of a metric."""
    return ".".join([policy, *(f"{key}_{value}" for key, value in tunables.items())])


def cells(trace: Path) -> Iterator[Cell]:
    """Yield the cells of all sizes of one trace that have enough pages."""
    keys = _models.trace_keys(str(trace), REQUESTS_MAX)
    footprint = int(np.unique(keys).size)
    sizes = sorted({size for share in SHARES if (size := int(share * footprint)) >= PAGES_MIN})
    if not sizes:
        return
    found: dict[int, dict[str, float]] = {size: {} for size in sizes}
    names = [DEFAULT_MODEL, *(one.name for one in policies().values() if one.autopilot)]
    for row in _models.simulate(keys, names, sizes):
        found[row.size_pages][row.policy] = row.miss_ratio
    for policy, variants in TRIED.items():
        for tunables in variants:
            for row in _models.simulate(keys, [policy], sizes, tunables={policy: tunables}):
                found[row.size_pages][name_of(policy, tunables)] = row.miss_ratio
    yield from found.values()


def rows(found: list[Cell]) -> list[Row]:
    """Return, for each variant, what it adds to the present candidates."""
    made = [Row("models.variants.cells", len(found), "cells", better="higher")]
    for policy, variants in TRIED.items():
        for tunables in variants:
            name = name_of(policy, tunables)
            saved = [min(known(cell)) - cell[name] for cell in found]
            sole = sum(one > MARGIN for one in saved) / len(found)
            gain = sum(max(one, 0.0) for one in saved) / len(found)
            made.append(Row(f"models.variants.sole_best.{name}", sole, "ratio", better="higher"))
            made.append(Row(f"models.variants.saved.{name}", gain, "ratio", better="higher"))
    return made


def known(cell: Cell) -> list[float]:
    """Return the miss ratios of the candidates that are not variants."""
    return [ratio for name, ratio in cell.items() if "." not in name]


def main() -> None:
    """Write the rows and their table."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--traces", type=Path, help="a folder of further traces, *.u64.zst")
    arguments = parser.parse_args()
    files = sorted((ROOT / "experiments" / "recorded_traces").glob("*.cptrace.zst"))
    if arguments.traces is not None:
        files += sorted(arguments.traces.glob("*.u64.zst"))
    found: list[Cell] = []
    for file in files:
        found += cells(file)
        say(f"{file.name}: {len(found)} cells so far")
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    results = merge(EXPERIMENT / "results.json", rows(found), origin)
    lines = "\n".join(map(table.line, results))
    (EXPERIMENT / "table.md").write_text(f"{HEAD}\n{table.COLUMNS}\n{lines}\n", "utf-8")


if __name__ == "__main__":
    main()
