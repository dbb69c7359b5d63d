# SPDX-License-Identifier: Apache-2.0
"""GETs beside SCANs by other threads: a policy that knows the scanning tasks, and fadvise()."""

from statistics import median

import numpy as np
from experiments.kernel_guest import streams
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import Lines, Step, run_steps
from experiments.shared.rows import Row

from .context import MIB, PAGE_BYTES, SCRATCH, Context

IOPS = 1500
CGROUP_MIB = 32
FILE_MIB = 320
GOAL = 1.5
GET_THREADS = 4
SCAN_PAGES = 2048
# GETs ask for one in this many consecutive keys only.
READ_SHARE = 8
ADVICE = ("noreuse", "dontneed", "sequential")
FILE = f"{SCRATCH}/keys"


def _steps(context: Context) -> dict[str, str]:
    """Return commands by name: the kernel's own policies, each advice, and the policies to test."""
    shape = streams.Shape(pages=FILE_MIB * MIB // PAGE_BYTES // READ_SHARE, accesses=200_000)
    path = context.stream("gets", streams.zipf(shape) * np.uint64(READ_SHARE))
    program_path = program("get_scan")
    cases = [(name, name, "none") for name in context.names(["get_scan", "lfu"])]
    cases += [(f"default.{advice}", "default", advice) for advice in ADVICE]
    commands = {}
    for label, policy, advice in cases:
        tunable = "scan_tasks" if policy == "get_scan" else "''"
        commands[label] = f"""
	fresh_cgroup {CGROUP_MIB * MIB}
	with_tasks {policy} {tunable} scan_tasks {program_path} --file {FILE} --stream {path} \\
		--cgroup $BENCH --advice {advice} --get-threads {GET_THREADS} --scan-threads 1 \\
		--scan-pages {SCAN_PAGES} --warm-seconds {context.seconds} --seconds {context.seconds}
"""
    return commands


def _rows_of(label: str, runs: list[Lines]) -> list[Row]:
    name = label.replace(".", "_")
    gets = [lines.result["gets_per_second"] for lines in runs]
    scanned = [lines.result["scanned_pages_per_second"] for lines in runs]
    p99 = [lines.result["get_p99_us"] for lines in runs]
    return [
        Row.of_runs(f"kernel.getscan_gets.{name}", gets, "GETs/s", better="higher"),
        Row.of_runs(f"kernel.getscan_scanned.{name}", scanned, "pages/s", better="higher"),
        Row.of_runs(f"kernel.getscan_get_p99_us.{name}", p99, "microseconds"),
    ]


def run(context: Context) -> list[Row]:
    """Return `kernel.getscan_gain`: GET throughput over the default, and with advice instead."""
    commands = _steps(context)
    steps = [
        Step(f"{label}.{repeat}", command)
        for repeat in range(context.repeats)
        for label, command in commands.items()
    ]
    guest = context.guest("getscan", IOPS, [f"make_file {FILE} {FILE_MIB * MIB}"])
    outputs = run_steps(guest, steps)
    return rows(outputs)


def rows(outputs: dict[str, str]) -> list[Row]:
    """Return the rows of the output, by `LABEL.REPEAT`. Without a default there are no gains."""
    runs: dict[str, list[Lines]] = {}
    for name, text in outputs.items():
        runs.setdefault(name.rpartition(".")[0], []).append(Lines.parse(text, name))
    found = [row for label, lines in runs.items() for row in _rows_of(label, lines)]
    if "default" not in runs:
        return found
    base = median(lines.result["gets_per_second"] for lines in runs["default"])
    for label, lines in runs.items():
        if label in ("default", "lfu", "mglru.native"):
            continue
        is_policy = label == "get_scan"
        suffix = "" if is_policy else "_" + label.rpartition(".")[2]
        found.append(
            Row.of_runs(
                f"kernel.getscan_gain{suffix}",
                [line.result["gets_per_second"] / base for line in lines],
                "ratio",
                better="higher",
                goal=GOAL if is_policy else None,
                reference="default LRU of the same kernel without advice, GETs/s",
                reference_value=base,
            )
        )
    return found
