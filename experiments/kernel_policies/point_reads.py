# SPDX-License-Identifier: Apache-2.0
"""Point reads by four threads on a throttled disk: throughput and block reads by policy."""

from statistics import median

from experiments.kernel_guest import streams
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import Lines, Step, run_steps
from experiments.shared.rows import Row

from .context import DEFAULTS, MIB, PAGE_BYTES, SCRATCH, Context

IOPS = 1500
CGROUP_MIB = 32
FILE_MIB = 320
MGLRU_GOAL = 0.99
CANDIDATES = ("lfu", "lhd", "s3fifo")
FILE = f"{SCRATCH}/points"

Runs = dict[str, list[Lines]]


def _play(context: Context, stream: str, policies: list[str]) -> Runs:
    """Play every policy on the stream in turn, `repeats` times."""
    shape = streams.Shape(
        pages=FILE_MIB * MIB // PAGE_BYTES,
        accesses=context.zipf_accesses if stream == "zipf" else context.uniform_accesses,
    )
    pages = streams.zipf(shape) if stream == "zipf" else streams.uniform(shape)
    path = context.stream(f"points-{stream}", pages)
    command = f"""
	fresh_cgroup {CGROUP_MIB * MIB}
	policy NAME
	{program("play_stream")} --file {FILE} --stream {path} --cgroup $BENCH --threads 4 \\
		--warmup {shape.accesses // 2} --ticks 1
"""
    cells = [(name, repeat) for repeat in range(context.repeats) for name in policies]
    steps = [Step(f"{name}.{repeat}", command.replace("NAME", name)) for name, repeat in cells]
    guest = context.guest(f"points-{stream}", IOPS, [f"make_file {FILE} {FILE_MIB * MIB}"])
    outputs = run_steps(guest, steps)
    found: Runs = {}
    for step, (name, _) in zip(steps, cells, strict=True):
        if step.name in outputs:
            found.setdefault(name, []).append(Lines.parse(outputs[step.name], step.name))
    return found


def _rates(runs: Runs, name: str) -> list[float]:
    return [lines.accesses_per_second for lines in runs.get(name, [])]


def _side_by_side(stream: str, runs: Runs) -> list[Row]:
    """Return throughput and block reads of every policy, without goals."""
    rows = []
    for name in runs:
        label = name.replace(".", "_")
        reads = [lines.block_read_pages for lines in runs[name]]
        accesses = runs[name][0].measured(lambda line: line["accesses"])
        rows += [
            Row.of_runs(
                f"kernel.{stream}_reads_per_second.{label}",
                _rates(runs, name),
                "reads/s",
                better="higher",
            ),
            Row.of_runs(
                f"kernel.{stream}_block_reads.{label}",
                [read / accesses for read in reads],
                "block reads per read",
            ),
        ]
    return rows


def _mglru_ratio(stream: str, runs: Runs) -> list[Row]:
    ours, native = _rates(runs, "mglru"), _rates(runs, "mglru.native")
    if not ours or not native:
        return []
    return [
        Row.of_runs(
            f"kernel.mglru_ratio.{stream}",
            [rate / median(native) for rate in ours],
            "ratio",
            better="higher",
            goal=MGLRU_GOAL,
            reference="native MGLRU of the same kernel, reads/s",
            reference_value=median(native),
        )
    ]


def run_zipf(context: Context) -> list[Row]:
    """Return `kernel.zipf_gain.POLICY` over the better of the kernel's own, and the MGLRU ratio."""
    runs = _play(context, "zipf", context.names([*CANDIDATES, "mglru"]))
    rows = [*_side_by_side("zipf", runs), *_mglru_ratio("zipf", runs)]
    bases = {name: median(_rates(runs, name)) for name in DEFAULTS if name in runs}
    for name in CANDIDATES:
        if name not in runs or not bases:
            continue
        best = max(bases, key=lambda base: bases[base])
        for suffix, base in (("", best), *(("_over_" + b.partition(".")[0], b) for b in bases)):
            rows.append(
                Row.of_runs(
                    f"kernel.zipf_gain{suffix}.{name}",
                    [rate / bases[base] for rate in _rates(runs, name)],
                    "ratio",
                    better="higher",
                    goal=None if suffix else 1.0,
                    reference=f"{base} of the same kernel, reads/s",
                    reference_value=bases[base],
                )
            )
    return rows


def run_uniform(context: Context) -> list[Row]:
    """Return the MGLRU ratio when no page is more popular than another."""
    runs = _play(context, "uniform", context.names(["mglru"]))
    return [*_side_by_side("uniform", runs), *_mglru_ratio("uniform", runs)]
