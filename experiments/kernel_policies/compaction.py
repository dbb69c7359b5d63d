# SPDX-License-Identifier: Apache-2.0
"""RocksDB reads during compaction: the admission filter keeps compaction threads out.

Reads come at a pace that the device can serve: a share of its highest rate, which is measured
first. If each read came as soon as the last one is answered, the filter would change the number of
reads and not their latency.
"""

import shutil
import subprocess
from collections.abc import Sequence
from statistics import median

from experiments.kernel_guest import streams
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import Lines, Step, run_steps, say
from experiments.shared.rows import Row

from .context import BUILD, MIB, SCRATCH, Context

IOPS = 1500
CGROUP_MIB = 32
KEYS = 100_000  # of 1,000 bytes
RUNS = 8
THREADS = 4
PACE = 0.65
"""Share of the GETs that the device serves beside the compaction under the default."""
# 2.61 ms to 2.16 ms in section 6.1.5 of the paper.
GOAL = 2.16 / 2.61
STORE = f"{SCRATCH}/store"


def _build_store() -> str:
    """Return the archive of the store, which is made once on the host."""
    archive = BUILD / "store.tar"
    if not archive.is_file():
        say("writing the RocksDB store")
        folder = BUILD / "store"
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        build = [str(program("rocksdb_reads")), "build", str(folder), str(KEYS), str(RUNS)]
        subprocess.run(build, check=True)
        partial = archive.with_suffix(".partial")
        subprocess.run(["tar", "-c", "-f", str(partial), "-C", str(folder), "."], check=True)
        partial.replace(archive)
        shutil.rmtree(folder)
    return str(archive)


def run(context: Context) -> list[Row]:
    """Return `kernel.admission_p99_ratio`: P99 of reads with the filter over the default's."""
    archive = _build_store()
    shape = streams.Shape(pages=KEYS, accesses=200_000)
    path = context.stream("store-keys", streams.zipf(shape))
    command = f"""
	rm -rf {STORE} && mkdir {STORE} && tar -x -f {archive} -C {STORE}
	fresh_cgroup {CGROUP_MIB * MIB}
	with_tasks NAME TUNABLE compaction_tasks {program("rocksdb_reads")} read {STORE} {path} \\
		$BENCH {THREADS} {context.seconds} {context.seconds} PACE
"""
    fastest = _played(context, "compaction-pace", [_step("default", 0, command, 0.0)])
    pace = PACE * median(fastest["default"][1])
    say(f"{pace:.0f} GETs a second, {PACE:.0%} of what the device serves")
    steps = [
        _step(name, repeat, command, pace)
        for repeat in range(context.repeats)
        for name in context.names(["admission", "lru"])
    ]
    found = _played(context, "compaction", steps)
    p99, rates = ({name: one[i] for name, one in found.items()} for i in (0, 1))
    pace_row = Row("kernel.compaction_pace", pace, "GETs/s", better="higher")
    return [pace_row, *_rows(p99, rates)]


def _step(name: str, repeat: int, command: str, pace: float) -> Step:
    tunable = "filtered_tasks" if name == "admission" else "''"
    command = command.replace("NAME", name).replace("TUNABLE", tunable)
    return Step(f"{name}.{repeat}", command.replace("PACE", f"{pace:.1f}"))


def _played(
    context: Context, guest: str, steps: Sequence[Step]
) -> dict[str, tuple[list[float], list[float]]]:
    """Return, by policy, P99 in microseconds and GETs a second of each run."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for name, text in run_steps(context.guest(guest, IOPS, []), steps).items():
        result = Lines.parse(text, name).result
        p99, rates = found.setdefault(name.rpartition(".")[0], ([], []))
        p99.append(result["get_p99_us"])
        rates.append(result["gets_per_second"])
    return found


def _rows(p99: dict[str, list[float]], rates: dict[str, list[float]]) -> list[Row]:
    rows = []
    for name, values in p99.items():
        label = name.replace(".", "_")
        rows += [
            Row.of_runs(f"kernel.compaction_get_p99_us.{label}", values, "microseconds"),
            Row.of_runs(f"kernel.compaction_gets.{label}", rates[name], "GETs/s", better="higher"),
        ]
    if "admission" in p99 and "default" in p99:
        base = median(p99["default"])
        rows.append(
            Row.of_runs(
                "kernel.admission_p99_ratio",
                [value / base for value in p99["admission"]],
                "ratio",
                goal=round(GOAL, 4),
                reference="default LRU of the same kernel, P99 of GETs in microseconds",
                reference_value=base,
            )
        )
    return rows
