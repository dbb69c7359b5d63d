# SPDX-License-Identifier: Apache-2.0
"""No correction that was measured at another limit moves a tenant."""

from pathlib import Path

import numpy as np
from experiments.control_loop.plant import Plant, PlantTenant, scan
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective
from cachepilot.plan.consolidation.least.uncorrected import sure_snapshot

MIB = 1 << 20
SIZES = tuple(MIB * size for size in (8, 32, 128, 192))
HAS = 96 * MIB


def test_a_loop_that_just_fits_is_not_predicted_to_fit_in_less(tmp_path: Path) -> None:
    """Between 32 and 128 MiB the curve falls from 1 to 0; nobody knows where."""
    plant = Plant([PlantTenant("/loop", {"default": scan(80 * MIB)}, HAS)], HAS, SIZES)
    here = World(tmp_path, plant, (Objective("*", throughput_ops=1.0),))
    here.run(60)
    report = here.loop.report
    assert report is not None
    (before,), (after,) = report.collected.snapshot.tenants, sure_snapshot(report.collected).tenants
    assert before.curves is not None and after.curves is not None
    sizes = before.curves.sizes_bytes
    assert (before.curves.miss_ratio[0][sizes <= 32 * MIB] < 0.9).all(), "what is to be mended"
    assert (after.curves.miss_ratio[0][sizes <= 32 * MIB] == 1.0).all()
    at = int(np.flatnonzero(sizes == HAS)[0])
    assert after.curves.miss_ratio[0][at] < 0.1, "what was measured is believed where it was"
    assert (after.curves.miss_ratio >= before.curves.miss_ratio).all()
