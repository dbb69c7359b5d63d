# SPDX-License-Identifier: Apache-2.0
"""Plays one load under the autopilot of another checkout, in a separate process.

    python guard_player.py LOAD    in the checkout, with PYTHONPATH=controller:.

LOAD is a JSON object; see `asked` in guard.py. Prints a JSON object: operations per second in the
second half, and the changes of policy in the whole run.
"""

import json
import sys
from importlib import import_module
from itertools import pairwise
from typing import Any

CGROUP = "/tenant"


def play(asked: dict[str, Any]) -> dict[str, float]:
    """Play the load on a simulated node of the checkout, with fixed memory."""
    # Modules have their names in that checkout, which need not exist in this one.
    rig = import_module("experiments.autopilot_simulated.rig")
    objectives = import_module("cachepilot.domain.objectives.objective")
    sizes = import_module("cachepilot.sizes")
    tenant = rig.Tenant(
        CGROUP,
        asked["limit_bytes"],
        [{"source": {"kind": "trace", "path": asked["trace"]}}],
        concurrency=asked["concurrency"],
        service_us=asked["service_us"],
    )
    device = {name: asked[name] for name in ("read_us", "parallelism", "iops")}
    seconds = asked["seconds"]
    setup = rig.Setup([tenant], asked["limit_bytes"], seconds, seed=asked["seed"], **device)
    limit = sizes.parse_size(f"{asked['limit_bytes'] // sizes.PAGE_BYTES}")
    stays = objectives.Objective("*", memory_min=limit, memory_max=limit)
    run = rig.play(setup, objectives.Objectives((stays,)))
    return {
        "ops": run.throughput_ops(CGROUP, seconds / 2, seconds),
        "changes": sum(now.policy != was.policy for was, now in pairwise(run.looks[CGROUP])),
    }


if __name__ == "__main__":
    print(json.dumps(play(json.loads(sys.argv[1]))))
