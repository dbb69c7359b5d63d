# SPDX-License-Identifier: Apache-2.0
"""Show which kernel functions execute how many instructions per read, in each mode.

A plugin of QEMU counts instructions by the address of their block. The guest sets a mark before a
short run, another between it and a long run, and a third after the long run. The count of the long
run minus that of the short one is the cost of the additional reads.
"""

import argparse
import bisect
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import GuestError, run_steps
from rich import box
from rich.console import Console
from rich.table import Table

from cachepilot.vm.host import kernel_image

from . import measure, noop_policy
from .measure import STOCK, UNATTACHED, Mode, Sizes

# Kernel function that is called when a domain name is written, which guest.sh does to set a mark.
MARK = "proc_do_uts_string"
MARKS = 3
KERNEL_START = 0xFFFFFFFF80000000
OUT = measure.BUILD / "profile"


@dataclass(frozen=True)
class Symbols:
    """Functions of a kernel, by address."""

    addresses: Sequence[int]
    names: Sequence[str]

    @classmethod
    def of(cls, kernel: str) -> "Symbols":
        """Return the functions of a kernel. Raises VmError when it is not built."""
        listed = subprocess.run(
            ["nm", "--numeric-sort", kernel_image(kernel).with_name("vmlinux")],
            check=True,
            capture_output=True,
            text=True,
        )
        lines = (line.split() for line in listed.stdout.splitlines())
        found = [(int(words[0], 16), words[2]) for words in lines if words[1] in "tTwW"]
        functions = [pair for pair in found if pair[0] >= KERNEL_START]
        return cls([address for address, _ in functions], [name for _, name in functions])

    def address(self, name: str) -> int:
        """Return the address of a function.

        Raises GuestError when the kernel has no such function.
        """
        if name not in self.names:
            raise GuestError(f"the kernel has no function {name}")
        return self.addresses[self.names.index(name)]

    def name(self, address: int) -> str:
        """Return the function at an address; (user) or (bpf) for code outside the kernel image."""
        if address < KERNEL_START:
            return "(user)"
        at = bisect.bisect_right(self.addresses, address) - 1
        last = at == len(self.addresses) - 1
        return "(bpf)" if last else self.names[max(at, 0)]


def _counts(path: Path, symbols: Symbols) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in path.read_text("ascii").splitlines():
        address, instructions = line.split()
        counts[symbols.name(int(address, 16))] += int(instructions)
    return counts


def per_read(prefix: Path, first: int, symbols: Symbols, reads: int) -> dict[str, float]:
    """Return, by function, the long run between two marks minus the short one before it."""
    marks = [_counts(Path(f"{prefix}.{first + i}"), symbols) for i in range(MARKS)]
    short, long = marks[1].copy(), marks[2].copy()
    short.subtract(marks[0])
    long.subtract(marks[1])
    long.subtract(short)
    return {name: count / reads for name, count in long.items() if count}


# By mode and size of the cgroup: instructions per read of each function.
Profiles = dict[tuple[str, int], dict[str, float]]


def printed(kernel: str, mode: Mode, percent: int) -> str:
    """Return what the guest printed when this mode and size were last counted."""
    return (OUT / f"{kernel}-guest" / f"{mode.name}.{percent}.out").read_text("utf-8")


def profiles(kernel: str, modes: Sequence[Mode], sizes: Sizes) -> Profiles:
    """Return the instructions per read of each function, by mode and size of the cgroup."""
    symbols = Symbols.of(kernel)
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob(f"{kernel}.*"):
        old.unlink()
    plugin = f"{program('count_blocks')},mark={symbols.address(MARK):#x},out={OUT / kernel}"
    plain = measure.guest(kernel, icount=True, sizes=sizes)
    machine = replace(plain.machine, qemu=("-plugin", plugin))
    cells = [(mode, percent) for mode in modes for percent in sizes.cgroup_pct]
    steps = [
        measure.step(mode, percent, f"profile {sizes.reads_per_job}", sizes)
        for mode, percent in cells
    ]
    outputs = run_steps(replace(plain, machine=machine, out=OUT / f"{kernel}-guest"), steps)
    if len(outputs) < len(steps):
        raise GuestError("a run failed, so the marks cannot be assigned to runs")
    reads = measure.JOBS * sizes.reads_per_job
    return {
        (mode.name, percent): per_read(OUT / kernel, number * MARKS, symbols, reads)
        for number, (mode, percent) in enumerate(cells)
    }


def _table(found: dict[str, dict[str, float]], percent: int, rows: int) -> Table:
    """Return a table of the functions that differ most between the first mode and the last."""
    first, *_, last = found.values()
    names = set(first) | set(last)
    differing = sorted(names, key=lambda name: -abs(last.get(name, 0) - first.get(name, 0)))
    table = Table(title=f"instructions per read, {percent}% of the file fits", box=box.SIMPLE)
    table.add_column("function")
    for mode in found:
        table.add_column(mode, justify="right")
    table.add_row("(all)", *(f"{sum(counts.values()):.1f}" for counts in found.values()))
    for name in differing[:rows]:
        table.add_row(name, *(f"{counts.get(name, 0):.1f}" for counts in found.values()))
    return table


def main() -> int:
    """Return 0 when every mode has been measured."""
    parser = argparse.ArgumentParser(prog="where", description=__doc__)
    parser.add_argument("--rows", type=int, default=25, help="number of functions in each table")
    parser.add_argument(
        "--reads", type=int, default=1000, help="number of reads of each of the 8 jobs"
    )
    arguments = parser.parse_args()
    sizes = Sizes(reads_per_job=arguments.reads)
    found = profiles(STOCK.kernel, [STOCK], sizes)
    found |= profiles(measure.KERNEL, [UNATTACHED, measure.noop(noop_policy.build())], sizes)
    console = Console(width=100)
    for percent in sizes.cgroup_pct:
        by_mode = {mode: counts for (mode, size), counts in found.items() if size == percent}
        console.print(_table(by_mode, percent, arguments.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
