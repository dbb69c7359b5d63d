# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks written in Rust, under models/benches, and reads their rows."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .context import ROOT, Context
from .rows import Row


@dataclass(frozen=True)
class Measured:
    """A line that a program printed. The caller adds `better`, goal and reference."""

    metric: str
    value: float
    unit: str
    runs: int
    spread: tuple[float, float]

    def row(self, **others: Any) -> Row:
        """Return the row of results.json."""
        return Row(self.metric, self.value, self.unit, runs=self.runs, spread=self.spread, **others)


class NativeError(Exception):
    """A Rust benchmark failed. It has printed the reason to stderr."""


def run(context: Context, bench: str, arguments: Sequence[str]) -> list[Measured]:
    """Build and run `models/benches/BENCH.rs`. Its stderr is passed on."""
    cargo = ["cargo", "bench", "--quiet", "--locked", "--package", "cachepilot-models"]
    command = [*cargo, "--profile", context.cargo_profile, "--bench", bench, "--"]
    context.say(f"models/benches/{bench}.rs")
    found = []
    with subprocess.Popen(
        [*command, "--json", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CARGO_TERM_COLOR": "never"},
    ) as process:
        for line in process.stdout or ():
            fields = json.loads(line)
            row = Measured(
                fields["metric"],
                fields["value"],
                fields["unit"],
                fields["runs"],
                (fields["spread"][0], fields["spread"][1]),
            )
            context.say(f"  {row.metric} {row.value:.4g} {row.unit}")
            found.append(row)
    if process.returncode != 0:
        raise NativeError(f"models/benches/{bench}.rs failed with status {process.returncode}")
    return found
