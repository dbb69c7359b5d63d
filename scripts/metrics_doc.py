#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference/metrics.md from the code of the controller and the agent.

Run by the virtual environment. With --check nothing is written, and the exit status is 1 if the
page is out of date.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Metric,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from cachepilot import agent
from cachepilot.api.metric_families import CONTROL_LOOP, FAMILIES, Described
from cachepilot.api.metrics import EVENTS, TARGETS, VERDICTS
from cachepilot.node.timing import CYCLE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "reference" / "metrics.md"
READAHEAD = "cachepilot_tenant_prefetch_"
UNITS = ("seconds", "bytes", "ratio", "per_second")
HEADER = "| metric | kind | unit | labels | series | meaning |\n|---|---|---|---|---:|---|"
OPENING = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Metrics

Written by `scripts/metrics_doc.py` from the code; do not edit. Names follow Prometheus: base units,
`_total` for counters. A series is left out while its value is unknown.
The controller has no series for the tenants of a stale node: one that sent no snapshot for five
control intervals.

The controller answers `GET /metrics` on its HTTP address, each agent on its own
(`metrics` in its configuration). Scrape both, because each metric is in one of them only. A
tenant has at most **{tenant} series**: {controller} of the controller, with three objectives, and
{agent} of its agent. A tenant with a readahead policy of its own has {readahead} more. Rules and
alerts are in `configs/prometheus/`, dashboards in `configs/grafana/`.
"""


@dataclass(frozen=True)
class Row:
    """One documented metric. `series` is the number of one tenant, node, step or process."""

    name: str
    kind: str
    labels: tuple[str, ...]
    series: int
    meaning: str

    @property
    def unit(self) -> str:
        """The unit, from the end of the metric's name; empty if it has none."""
        base = self.name.removesuffix("_total")
        found = next((unit for unit in UNITS if base.endswith(f"_{unit}")), "")
        return found.replace("per_second", "1/s")

    def line(self) -> str:
        """Return the metric as a row of a Markdown table."""
        labels = ", ".join(self.labels)
        cells = (f"`{self.name}`", self.kind, self.unit, labels, str(self.series), self.meaning)
        return f"| {' | '.join(cells)} |"


def _controller_series(described: Described) -> int:
    """Return the series of one node or tenant: one, or one per SLO, event or verdict."""
    several = {"slo": len(TARGETS), "event": len(EVENTS), "verdict": len(VERDICTS)}
    return max(several.get(label, 1) for label in (*described.labels, ""))


def controller_rows(families: Iterable[Described]) -> list[Row]:
    """Return the metrics that are made from the service at every scrape."""
    return [
        Row(one.name, one.kind, one.labels, _controller_series(one), one.help) for one in families
    ]


def loop_rows() -> list[Row]:
    """Return the metrics of the control loop itself."""
    of_histogram = sum(len(metric.samples) for metric in CYCLE_SECONDS.collect())
    return [
        Row(
            one.name, one.kind, one.labels, of_histogram if one.kind == "histogram" else 1, one.help
        )
        for one in CONTROL_LOOP
    ]


def process_rows() -> list[Row]:
    """Return the metrics of the controller's process, which every Python process has."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return [_row(family) for family in registry.collect()]


def _row(family: Metric) -> Row:
    labels = {name for sample in family.samples for name in sample.labels}
    kept = sorted(labels - {"le"})
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    meaning = family.documentation.rstrip(".") + "."
    kind = "gauge" if family.type == "info" else family.type
    return Row(family.name + suffix, kind, tuple(kept), len(family.samples), meaning)


def agent_rows() -> list[Row]:
    """Return the agent's metrics, which it prints for an example.

    Raises InputError if there is no agent.
    """
    program = agent.find(os.environ)
    text = subprocess.run(
        [program, "metrics"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return [_row(family) for family in families]


def _table(title: str, rows: Sequence[Row]) -> str:
    return "\n".join([f"## {title}\n", HEADER, *(row.line() for row in rows)])


def _of_tenants(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "cgroup" in row.labels]


def _series_of_tenants(controller: Iterable[Row], agents: Iterable[Row]) -> dict[str, int]:
    """Return the series of one tenant, by controller, agent and their sum.

    The series of a readahead policy are counted apart.
    """
    of_agent = _of_tenants(agents)
    readahead = sum(row.series for row in of_agent if row.name.startswith(READAHEAD))
    found = {
        "controller": sum(row.series for row in _of_tenants(controller)),
        "agent": sum(row.series for row in of_agent) - readahead,
    }
    return {**found, "tenant": sum(found.values()), "readahead": readahead}


def document() -> str:
    """Return the whole page."""
    controller, agents = controller_rows(FAMILIES), agent_rows()
    of_tenant = _series_of_tenants(controller, agents)
    others = [row for row in controller if "cgroup" not in row.labels]
    parts = [
        OPENING.format(**of_tenant),
        _table("Controller: tenants", _of_tenants(controller)),
        _table("Controller: nodes", others),
        _table("Controller: its loop", loop_rows()),
        _table("Controller: its process", process_rows()),
        _table("Agent: tenants", _of_tenants(agents)),
        _table("Agent: node and itself", [row for row in agents if "cgroup" not in row.labels]),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def main() -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare without writing")
    found = document()
    if not parser.parse_args().check:
        DOCUMENT.write_text(found, "utf-8")
    elif not DOCUMENT.is_file() or DOCUMENT.read_text("utf-8") != found:
        print(f"{DOCUMENT.relative_to(ROOT)} is out of date: run scripts/metrics_doc.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
