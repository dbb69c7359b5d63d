# SPDX-License-Identifier: Apache-2.0
"""Parameters that all benchmarks of this experiment share: their sizes, and progress messages."""

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from cachepilot import manifest

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = Path(__file__).resolve().parent


class SkippedError(Exception):
    """A benchmark cannot run here. Its rows stay as they were."""


@dataclass(frozen=True)
class Context:
    """Sizes of the benchmarks. `max_requests` bounds the recorded traces that are used."""

    zipf_requests: int = 20_000_000
    zipf_pages: int = 1_000_000
    runs: int = 5
    seeds: int = 30
    shards_traces: int = 1000
    max_requests: int = 1 << 62
    cargo_profile: str = "bench"
    started: float = field(default_factory=time.monotonic)

    def say(self, message: str) -> None:
        """Print one line of progress to stderr, with the seconds since the start."""
        print(f"[{time.monotonic() - self.started:5.0f} s] {message}", file=sys.stderr, flush=True)


QUICK = Context(
    zipf_requests=100_000,
    zipf_pages=5_000,
    runs=1,
    seeds=1,
    shards_traces=0,
    max_requests=20_000,
    cargo_profile="test",
)


def list_policies() -> list[str]:
    """Return the policies that only move pages between lists, and do not score batches of pages."""
    return [name for name, policy in manifest.policies().items() if "scoring" not in policy.needs]


def trace_folder() -> Path:
    """Return the folder of recorded traces.

    It is CACHEPILOT_TRACES, or `shared/traces` beside the checkout. Raises SkippedError when there
    are no traces in it.
    """
    beside = ROOT.parent / "shared" / "traces"
    folder = Path(os.environ.get("CACHEPILOT_TRACES", beside))
    if not (folder / "index.tsv").is_file():
        raise SkippedError(f"no recorded traces in {folder} (set CACHEPILOT_TRACES)")
    return folder
