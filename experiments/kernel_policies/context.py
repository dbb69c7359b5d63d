# SPDX-License-Identifier: Apache-2.0
"""Parameters that all workloads of this experiment share: their sizes, and the machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.kernel_guest.guest_run import Guest
from experiments.kernel_guest.streams import Pages, write
from experiments.shared.rows import ROOT

from cachepilot.vm import Machine

BUILD = ROOT / "build" / "kernel-policies"
LIBRARY = Path(__file__).resolve().parent / "guest.sh"
SCRATCH = "/mnt/scratch"
PAGE_BYTES = 4096
MIB = 1 << 20
DEFAULTS = ("default", "mglru.native")


class SkippedError(Exception):
    """A workload cannot run here. Its rows stay as they were."""


@dataclass(frozen=True)
class Context:
    """Sizes of the workloads. `kernel` runs all of them, so that only the policy differs."""

    kernel: str = "patched"
    repeats: int = 2
    zipf_accesses: int = 120_000
    uniform_accesses: int = 45_000
    search_passes: int = 10
    seconds: int = 15
    policies: bool = True

    def guest(
        self,
        name: str,
        iops: int,
        prepare: Sequence[str],
        environment: dict[str, str] | None = None,
    ) -> Guest:
        """Return a machine whose scratch disk serves `iops` operations a second."""
        machine = Machine(kernel=self.kernel, iops=iops, timeout_seconds=3600)
        lines = [f". {LIBRARY}", *prepare]
        return Guest(machine, BUILD / name, lines, environment or {})

    def stream(self, name: str, pages: Pages) -> Path:
        """Write the stream to a file that the guest can read."""
        return write(name, pages, BUILD / "streams")

    def names(self, policies: Sequence[str]) -> list[str]:
        """Return the kernel's own policies, and `policies` if this kernel can run them."""
        return [*DEFAULTS, *(policies if self.policies else ())]


QUICK = Context(
    repeats=1, zipf_accesses=20_000, uniform_accesses=10_000, search_passes=2, seconds=8
)
