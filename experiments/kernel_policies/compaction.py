# SPDX-License-Identifier: Apache-2.0
"""RocksDB reads while it compacts: the admission filter keeps compaction threads out."""

import shutil
import subprocess
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
# 2.61 ms to 2.16 ms in section 6.1.5 of the paper.
GOAL = 2.16 / 2.61
STORE = f"{SCRATCH}/store"


def _build_store() -> str:
    """The store as an archive, made once on the host."""
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
    """`kernel.admission_p99_ratio`: P99 of reads with the filter over that of the default."""
    archive = _build_store()
    shape = streams.Shape(pages=KEYS, accesses=200_000)
    path = context.stream("store-keys", streams.zipf(shape))
    command = f"""
	rm -rf {STORE} && mkdir {STORE} && tar -x -f {archive} -C {STORE}
	fresh_cgroup {CGROUP_MIB * MIB}
	with_tasks NAME TUNABLE compaction_tasks {program("rocksdb_reads")} read {STORE} {path} \\
		$BENCH {THREADS} {context.seconds} {context.seconds}
"""
    steps = [
        Step(
            f"{name}.{repeat}",
            command.replace("NAME", name).replace(
                "TUNABLE", "filtered_tasks" if name == "admission" else "''"
            ),
        )
        for repeat in range(context.repeats)
        for name in context.names(["admission", "lru"])
    ]
    outputs = run_steps(context.guest("compaction", IOPS, []), steps)
    p99: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for name, text in outputs.items():
        result = Lines.parse(text, name).result
        p99.setdefault(name.rpartition(".")[0], []).append(result["get_p99_us"])
        rates.setdefault(name.rpartition(".")[0], []).append(result["gets_per_second"])
    return _rows(p99, rates)


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
