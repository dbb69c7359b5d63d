# SPDX-License-Identifier: Apache-2.0
"""Writes the results of the experiment: cells, rows, table, plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.shared.rows import Row
from matplotlib.figure import Figure

from cachepilot.cli.traces.plots import COLOURS, save

from . import readahead
from .cells import complete

GOAL, GOAL_DEFAULT = 0.02, 0.05
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Kernel against simulator: results

Written by `make bench-kernel` from `cells.json`; README.md says what is measured and how.
Miss ratios after the warm-up; `default` and `mglru.native` are the kernel's own LRU and MGLRU,
beside the simulated `kernel_lru` and `mglru`.
"""

READAHEAD_HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Readahead, kernel against simulator: results

Written by `make bench-kernel` from `readahead_cells.json`; README.md says what is measured and
how. Shares of the reads after the warm-up: those that missed, and the pages that the policy had
read ahead and that were used or wasted. `none` is the kernel's own readahead, which counts no
pages, beside the simulated `linux`.
"""


@dataclass(frozen=True)
class Cell:
    """One policy on one stream, in the kernel and simulated."""

    policy: str
    stream: str
    kernel: float
    simulated: float
    cache_pages: int
    accesses: int
    block_reads: int

    @property
    def difference(self) -> float:
        """Miss ratio, kernel minus simulated."""
        return self.kernel - self.simulated


def rows(cells: Sequence[Cell], streams: Sequence[str]) -> list[Row]:
    """Return `kernel.conformance_max.POLICY` of each policy that played every stream."""
    found = []
    for policy, of_policy in complete(cells, streams):
        differences = [abs(cell.difference) for cell in of_policy]
        worst = max(of_policy, key=lambda cell: abs(cell.difference))
        goal: float | None = GOAL
        name = {"default": "kernel_lru", "mglru.native": "mglru_native"}.get(policy, policy)
        if policy == "default":
            goal = GOAL_DEFAULT
        elif policy == "mglru.native":
            goal = None
        found.append(
            Row(
                f"kernel.conformance_max.{name}",
                max(differences),
                "miss ratio",
                goal=goal,
                reference=f"simulated miss ratio on {worst.stream}, kernel {worst.kernel:.4f}",
                reference_value=worst.simulated,
                runs=len(of_policy),
                spread=(min(differences), max(differences)),
            )
        )
    return found


def write_table(cells: Sequence[Cell], path: Path) -> None:
    """Write one line per policy and stream."""
    lines = [
        "| policy | stream | kernel | simulated | difference | cache pages |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for cell in cells:
        difference = f"{cell.difference:+.4f}"
        if abs(cell.difference) > (GOAL_DEFAULT if cell.policy == "default" else GOAL):
            difference = f"**{difference}**"
        lines.append(
            f"| {cell.policy} | {cell.stream} | {cell.kernel:.4f} | {cell.simulated:.4f} "
            f"| {difference} | {cell.cache_pages:,} |"
        )
    path.write_text(f"{HEAD}\n" + "\n".join(lines) + "\n", "utf-8")


def write_readahead_table(cells: Sequence[readahead.Cell], path: Path) -> None:
    """Write one line per readahead policy and stream."""
    lines = [
        "| policy | stream | kernel | simulated | difference | used, kernel | used, simulated "
        "| wasted, kernel | wasted, simulated | cache pages |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cell in cells:
        difference = f"{cell.difference:+.4f}"
        if abs(cell.difference) > readahead.GOAL:
            difference = f"**{difference}**"
        pages = (
            cell.kernel_used,
            cell.simulated_used,
            cell.kernel_wasted,
            cell.simulated_wasted,
        )
        lines.append(
            f"| {cell.policy} | {cell.stream} | {cell.kernel:.4f} | {cell.simulated:.4f} "
            f"| {difference} | {' | '.join(f'{share:.4f}' for share in pages)} "
            f"| {cell.cache_pages:,} |"
        )
    path.write_text(f"{READAHEAD_HEAD}\n" + "\n".join(lines) + "\n", "utf-8")


def plot(cells: Sequence[Cell], path: Path) -> None:
    """Draw a dot per policy and stream: kernel over simulated."""
    figure = Figure(figsize=(5.2, 5.0))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    for index, stream in enumerate(dict.fromkeys(cell.stream for cell in cells)):
        chosen = [cell for cell in cells if cell.stream == stream]
        axes.plot(
            [cell.simulated for cell in chosen],
            [cell.kernel for cell in chosen],
            "os^D"[index % 4],
            color=COLOURS[index % len(COLOURS)],
            markersize=4,
            label=stream.replace("_", " "),
        )
    axes.set_xlabel("simulated miss ratio")
    axes.set_ylabel("miss ratio in the kernel")
    axes.legend(frameon=False, loc="upper left")
    axes.set_title("Every policy on every stream", loc="left", fontweight="bold")
    save(figure, path)
