# SPDX-License-Identifier: Apache-2.0
"""Encode a decision as bytes, with everything that is necessary to replay it.

The format is one line of JSON, followed by the arrays that the line refers to.
"""

import json
from dataclasses import dataclass, replace
from functools import cache

from pydantic import TypeAdapter

from cachepilot.domain.json_values import UNREADABLE, Arrays, RecordError, decode
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config


@dataclass(frozen=True)
class Record:
    """One decision with everything that it depended on."""

    snapshot: Snapshot
    objectives: Objectives
    config: Config
    plan: Plan

    def applying(self) -> "Record":
        """Return the same record with only the objectives that apply to a tenant of the snapshot.

        It replays the same: for each tenant the first objective that matched is still the first.
        """
        cgroups = {tenant.cgroup for tenant in self.snapshot.tenants}
        by_id = {id(self.objectives.of(cgroup)) for cgroup in cgroups}
        stated = self.objectives
        pinned, tenants = (
            tuple(one for one in some if id(one) in by_id)
            for some in (stated.pinned, stated.tenants)
        )
        workloads = tuple(one for one in stated.workloads if one.cgroup in cgroups)
        held = replace(stated, pinned=pinned, tenants=tenants, workloads=workloads)
        return replace(self, objectives=held)


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def to_bytes(record: Record) -> bytes:
    """Encode the record; floating-point numbers keep every bit.

    The line is the same as that of `json_values.encode`, but follows the declared types of fields.
    To look at each value takes half as long again.
    """
    arrays = Arrays()
    line = _adapter().dump_json(record, fallback=arrays.plain)
    return line + b"\n" + arrays.data


def from_bytes(data: bytes, name: str) -> Record:
    """Decode what `to_bytes` wrote; a RecordError names `name`."""
    line, _, arrays = data.partition(b"\n")
    try:
        record: Record = decode(Record, json.loads(line), arrays)
    except UNREADABLE as error:
        raise RecordError(f"{name}: not the record of a decision: {error}") from None
    return record


def replay(record: Record) -> Plan:
    """Return the plan that the present planner makes from the recorded inputs."""
    return plan(record.snapshot, record.objectives, record.config)
