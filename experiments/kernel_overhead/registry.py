# SPDX-License-Identifier: Apache-2.0
"""Memory of the registry relative to the cached bytes, under every policy."""

from experiments.kernel_guest.guest_run import Guest, Step, run_steps
from experiments.shared.rows import Row

from cachepilot import manifest
from cachepilot.vm import Machine

from .measure import BUILD, MIB

CGROUP_MIB = 32
FILE_MIB = 96
GOAL_PCT = 0.6
PAGE_BYTES = 4096
FILE = "/mnt/scratch/registry"


def _counts(text: str) -> dict[str, int]:
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return {key: int(value) for key, value in pairs if value.isdigit()}


def run() -> list[Row]:
    """Return `kernel.registry_pct` of the policy that needs most, without and with its ghosts."""
    names = manifest.attachable()
    command = f"""
	fresh_cgroup {CGROUP_MIB * MIB}
	policy NAME
	bash -c 'echo $$ >'$BENCH'/cgroup.procs; exec cat {FILE}' >/dev/null
	cat $BENCH/memory.cache_ext
"""
    guest = Guest(
        Machine(timeout_seconds=1200),
        BUILD / "registry",
        prepare=[f"make_file {FILE} {FILE_MIB * MIB}"],
    )
    outputs = run_steps(guest, [Step(name, command.replace("NAME", name)) for name in names])
    shares, with_ghosts = {}, {}
    for name, text in outputs.items():
        counts = _counts(text)
        if not counts["resident_pages"]:
            # A policy that leaves eviction to the kernel keeps no records.
            continue
        cached = counts["resident_pages"] * PAGE_BYTES
        shares[name] = 100 * counts["registry_bytes"] / cached
        with_ghosts[name] = shares[name] + 100 * counts["ghost_bytes"] / cached
    return [
        _row("kernel.registry_pct", shares, GOAL_PCT),
        _row("kernel.registry_with_ghosts_pct", with_ghosts, None),
    ]


def _row(metric: str, by_policy: dict[str, float], goal: float | None) -> Row:
    worst = max(by_policy, key=lambda name: by_policy[name])
    return Row(
        metric,
        by_policy[worst],
        "percent of the cached bytes",
        goal=goal,
        reference=f"the policy that needs most: {worst}; a cgroup of {CGROUP_MIB} MiB",
        runs=len(by_policy),
        spread=(min(by_policy.values()), by_policy[worst]),
    )
