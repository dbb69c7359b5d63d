# SPDX-License-Identifier: Apache-2.0
"""Ten searches of a source tree that is 1.4 times as large as the cgroup."""

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from statistics import median

from experiments.kernel_guest.guest_run import Step, run_steps, say
from experiments.shared.rows import Row

from .context import BUILD, DEFAULTS, PAGE_BYTES, SCRATCH, Context, SkippedError

# Low, so that the disk and not the emulated CPU is the bottleneck.
IOPS = 250
GOAL = 1.9
TREE_SHARE = 1.4
SOURCES = Path("/usr/src/linux-source-6.12.tar.xz")
FOLDERS = ("block", "fs", "kernel", "mm", "net")
# Pages that cannot be evicted yet: 32 pages of readahead for each of two readers, and 31 pages in
# the batch of each of two CPUs that have not joined the LRU.
SPARED_PAGES = 128
TREE = f"{SCRATCH}/tree"


def _pack() -> Path:
    """Return an archive of the tree, made once: the guest would take minutes to decompress it."""
    archive = BUILD / "tree.tar"
    if archive.is_file():
        return archive
    if not SOURCES.is_file():
        raise SkippedError(f"{SOURCES}: not found (install linux-source-6.12)")
    say(f"unpacking {SOURCES}")
    folder = BUILD / "tree"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    top = SOURCES.name.partition(".tar")[0]
    unpack = ["tar", "--extract", "--file", str(SOURCES), "--strip-components=1"]
    subprocess.run([*unpack, *(f"{top}/{name}" for name in FOLDERS)], cwd=folder, check=True)
    partial = archive.with_suffix(".partial")
    subprocess.run(["tar", "--create", "--file", str(partial), "."], cwd=folder, check=True)
    partial.replace(archive)
    shutil.rmtree(folder)
    return archive


def _tree_pages(archive: Path) -> int:
    with tarfile.open(archive) as tar:
        return sum(-(-member.size // PAGE_BYTES) for member in tar if member.isfile())


def run(context: Context) -> list[Row]:
    """Return `kernel.filesearch_speedup.default` and `.mglru`: their time over that of `mru`."""
    archive = _pack()
    limit = int(_tree_pages(archive) * PAGE_BYTES / TREE_SHARE)
    command = f"""
	fresh_cgroup {limit}
	policy NAME
	search {context.search_passes} {TREE}
"""
    names = [*DEFAULTS, *((f"mru spared_pages={SPARED_PAGES}",) if context.policies else ())]
    # One run is enough, since it has ten passes.
    cells = [(name, 0) for name in names]
    steps = [
        Step(f"{name.split()[0]}.{repeat}", command.replace("NAME", name)) for name, repeat in cells
    ]
    prepare = [f"mkdir -p {TREE} && tar -x -f {archive} -C {TREE} && sync"]
    outputs = run_steps(context.guest("filesearch", IOPS, prepare), steps)
    seconds: dict[str, list[float]] = {}
    for step, (name, _) in zip(steps, cells, strict=True):
        if step.name in outputs:
            value = json.loads(outputs[step.name].splitlines()[-1])["seconds"]
            seconds.setdefault(name.split()[0], []).append(value)
    return _rows(seconds, limit)


def _rows(seconds: dict[str, list[float]], limit: int) -> list[Row]:
    rows = [
        Row.of_runs(f"kernel.filesearch_seconds.{name.replace('.', '_')}", values, "seconds")
        for name, values in seconds.items()
    ]
    for name in DEFAULTS:
        if "mru" not in seconds or name not in seconds:
            continue
        rows.append(
            Row.of_runs(
                f"kernel.filesearch_speedup.{name.partition('.')[0]}",
                [median(seconds[name]) / value for value in seconds["mru"]],
                "ratio",
                better="higher",
                goal=GOAL,
                reference=f"{name} of the same kernel, seconds, cgroup of {limit >> 20} MiB",
                reference_value=median(seconds[name]),
            )
        )
    return rows
