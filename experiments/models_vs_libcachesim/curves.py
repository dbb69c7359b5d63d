# SPDX-License-Identifier: Apache-2.0
"""LRU curves and the bank: accuracy of SHARDS, speed and memory. The programs are in Rust."""

from . import native
from .context import Context, SkippedError, list_policies, trace_folder
from .rows import Row
from .traces import zipf_file

# Speed of the exact profiler in the peer's C program. The 0.3.5 wheel has no stack distances.
PEER_EXACT_MREQ_S = 0.58
PEER_EXACT = "14 x the exact profiler of libCacheSim's C program, as published with the goal"
SHARDS_GOALS = {
    "models.shards_mae": 0.01,
    "models.shards_max": 0.03,
    "models.shards_errorbar_coverage": 0.9,
}
COVERAGE = "models.shards_errorbar_coverage"


def run_shards(context: Context) -> list[Row]:
    """Return the error of SHARDS, over seeds, on the recorded traces of at least 100,000 pages."""
    folder = trace_folder()
    if not context.shards_traces:
        raise SkippedError(f"the traces of {folder} with 100,000 pages are too long for this")
    arguments = ["--seeds", str(context.seeds), "--traces", str(context.shards_traces)]
    found = native.run(context, "shards_error", arguments)
    rows = []
    for measured in found:
        family = measured.metric.rpartition(".")[0]
        better = "higher" if family == COVERAGE else "lower"
        rows.append(
            measured.row(
                better=better, goal=SHARDS_GOALS[family], reference="exact stack distances"
            )
        )
    shares = [measured for measured in found if measured.metric.startswith(COVERAGE)]
    least = min(shares, key=lambda measured: measured.value)
    rows.append(
        Row(
            COVERAGE,
            least.value,
            "share",
            better="higher",
            goal=SHARDS_GOALS[COVERAGE],
            reference=f"exact stack distances; the lesser of both samplers, {least.metric}",
            runs=least.runs,
            spread=least.spread,
        )
    )
    return rows


def run_curves(context: Context) -> list[Row]:
    """Return the throughput of the LRU curves on the synthetic trace, with one thread."""
    details: dict[str, dict[str, object]] = {
        "models.exact_mreq_s": {
            "goal": 14 * PEER_EXACT_MREQ_S,
            "reference": PEER_EXACT,
            "reference_value": PEER_EXACT_MREQ_S,
        },
        "models.shards_vs_bareloop": {
            "better": "lower",
            "goal": 2.0,
            "reference": "the loop that hashes and compares every key, same run, R = 0.001",
        },
    }
    arguments = ["--trace", str(zipf_file(context))]
    return [
        measured.row(**({"better": "higher"} | details.get(measured.metric, {})))
        for measured in native.run(context, "curves", arguments)
    ]


def run_bank(context: Context) -> list[Row]:
    """Return time per raw access and memory of all policies at 16 sizes, and instances' memory."""
    grid = "all policies x 16 sizes, geometric from 1% to 100% of the footprint"
    details: dict[str, dict[str, object]] = {
        "models.bank_ns_per_access": {"goal": 150.0, "reference": f"{grid}, R = 0.01"},
        "models.bank_mib": {
            "goal": 32.0,
            "reference": f"{grid}, s_max 8192: growth of the peak resident set of a process",
        },
    }
    said = "growth of the resident set of a process over the pages of its one cache"
    instance: dict[str, dict[str, object]] = {
        "models.rss_bytes_per_page": {"goal": 64.0, "reference": f"{said}, at the end"},
        "models.rss_peak_bytes_per_page": {"reference": f"{said}, at its peak"},
    }
    lists = ",".join(list_policies())
    arguments = ["--trace", str(zipf_file(context)), "--runs", str(context.runs), "--rss", lists]
    rows = []
    for measured in native.run(context, "bank", arguments):
        family = measured.metric.rpartition(".")[0]
        rows.append(measured.row(**details.get(measured.metric, instance.get(family, {}))))
    return rows
