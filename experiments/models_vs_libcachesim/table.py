# SPDX-License-Identifier: Apache-2.0
"""Writes table.md: every row of results.json, by family of metrics."""

from collections.abc import Sequence
from pathlib import Path

from experiments.shared import table

from cachepilot.results import Result

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Models against libcachesim: results

Written by `make bench-models` from `results.json`; README.md says what is measured and how.
"""


def _family(result: Result) -> str:
    """Return the family of a metric: `speedup` for `models.speedup.lru`."""
    return result.metric.split(".")[1]


def write(results: Sequence[Result], path: Path) -> None:
    """Write the table: figures of no family first, then the families."""
    families = {_family(result) for result in results if result.metric.count(".") > 1}
    sections: dict[str, list[Result]] = {"single figures": []}
    for result in results:
        name = _family(result)
        sections.setdefault(name if name in families else "single figures", []).append(result)
    blocks = [HEAD, table.origins(results)]
    blocks += [table.section(name, rows) for name, rows in sections.items() if rows]
    path.write_text("\n".join(blocks), "utf-8")
