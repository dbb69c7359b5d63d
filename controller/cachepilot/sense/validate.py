# SPDX-License-Identifier: Apache-2.0
"""Checks of messages from agents; an invalid one ends the session with a one-line error."""

import math
from collections.abc import Sequence

from cachepilot.domain.names import cgroup_path, node_name
from cachepilot.domain.snapshot import TENANTS_MAX
from cachepilot.domain.units import BYTES_MAX
from cachepilot.errors import InputError
from cachepilot.v1 import session_pb2 as wire

NAME_MAX = 253
POLICIES_MAX = 256
POINTS_MAX = 1 << 14
BUCKETS_MAX = 256
CPU_US_MAX = 1e6
"""Most CPU time of a policy per access, in microseconds: one second, which no access takes."""
CONDITIONS_MAX, MESSAGE_MAX = 64, 4096
LABELS_MAX = 64
BYTE_FIELDS = (
    "limit_bytes",
    "target_limit_bytes",
    "initial_limit_bytes",
    "floor_bytes",
    "current_bytes",
    "file_bytes",
    "anon_bytes",
    "mapped_bytes",
)


class ProtocolError(InputError):
    """A message that violates the protocol; names the field and the allowed range."""


def _require(fine: bool, message: str) -> None:
    if not fine:
        raise ProtocolError(message)


def check_hello(hello: wire.Hello) -> None:
    """Check a hello; raises ProtocolError if no session can begin with it."""
    try:
        node_name(hello.node)
    except InputError as error:
        raise ProtocolError(f"hello: node: {error}") from None
    _require(
        0 < hello.budget_bytes <= BYTES_MAX,
        f"hello: budget_bytes: {hello.budget_bytes} (allowed: 1 to {BYTES_MAX})",
    )
    count = len(hello.policies)
    _require(count <= POLICIES_MAX, f"hello: policies: {count} (allowed: at most {POLICIES_MAX})")


def _check_curves(curves: wire.Curves, where: str) -> None:
    policies, points = len(curves.policies), len(curves.sizes_bytes)
    fine = 0 < policies <= POLICIES_MAX and 0 < points <= POINTS_MAX
    allowed = f"1 to {POLICIES_MAX} policies, 1 to {POINTS_MAX} sizes"
    _require(fine, f"{where}: curves: {policies} x {points} (allowed: {allowed})")
    for name in ("miss_ratio", "error_bar"):
        count = len(getattr(curves, name))
        wanted = policies * points
        _require(count == wanted, f"{where}: curves: {name}: {count} (allowed: {wanted} values)")
    steps, wanted = len(curves.step_bar), policies * points
    fine = steps in (0, wanted)
    _require(fine, f"{where}: curves: step_bar: {steps} (allowed: none or {wanted} values)")
    for name in ("error_bar", "step_bar"):
        bars = getattr(curves, name)
        fine = all(math.isfinite(bar) for bar in bars) and min(bars, default=0) >= 0
        _require(fine, f"{where}: curves: {name}: must be numbers of at least 0")
    _require(max(curves.sizes_bytes) <= BYTES_MAX, f"{where}: curves: sizes_bytes: too large")


def _check_conditions(conditions: Sequence[wire.Condition], where: str) -> None:
    count = len(conditions)
    _require(count <= CONDITIONS_MAX, f"{where}: {count} conditions (allowed: {CONDITIONS_MAX})")
    longest = max((len(one.message) for one in conditions), default=0)
    allowed = f"at most {MESSAGE_MAX} characters"
    _require(
        longest <= MESSAGE_MAX, f"{where}: conditions: message: {longest} (allowed: {allowed})"
    )


def _check_workload(workload: wire.Workload, where: str) -> None:
    names = (workload.namespace, workload.pod, workload.container)
    fine = all(len(name) <= NAME_MAX and name.isprintable() for name in names)
    _require(fine, f"{where}: workload: names must be printable, at most {NAME_MAX} characters")
    count = len(workload.labels)
    _require(count <= LABELS_MAX, f"{where}: workload: {count} labels (allowed: {LABELS_MAX})")


def _check_cgroup(cgroup: str, where: str) -> None:
    """Require the normal form of a path: another form would make two tenants of one, or none."""
    try:
        normal = cgroup_path(cgroup)
    except InputError as error:
        raise ProtocolError(f"{where}: cgroup: {error}") from None
    _require(normal == cgroup, f"{where}: cgroup: must begin with a slash, as {normal} does")


def _check_tenant(tenant: wire.Tenant) -> None:
    where = f"tenant {tenant.cgroup[:80]!r}"
    _check_cgroup(tenant.cgroup, where)
    _require(bool(tenant.policy), f"{where}: policy: is empty (allowed: a name, or default)")
    largest = max(
        tenant.limit_bytes,
        tenant.target_limit_bytes,
        tenant.initial_limit_bytes,
        tenant.floor_bytes,
        tenant.current_bytes,
        tenant.file_bytes,
        tenant.anon_bytes,
        tenant.mapped_bytes,
    )
    if largest > BYTES_MAX:
        name = next(one for one in BYTE_FIELDS if getattr(tenant, one) > BYTES_MAX)
        raise ProtocolError(f"{where}: {name}: {largest} (allowed: 0 to {BYTES_MAX})")
    buckets = len(tenant.counters.read_latency_total)
    if buckets > BUCKETS_MAX:
        raise ProtocolError(f"{where}: read_latency_total: {buckets} (allowed: {BUCKETS_MAX})")
    cpu_us = tenant.policy_cpu_us_per_access
    if not 0 <= cpu_us <= CPU_US_MAX:
        allowed = f"0 to {CPU_US_MAX:.0f}"
        raise ProtocolError(f"{where}: policy_cpu_us_per_access: {cpu_us} (allowed: {allowed})")
    if tenant.conditions:
        _check_conditions(tenant.conditions, where)
    if tenant.HasField("workload"):
        _check_workload(tenant.workload, where)
    if tenant.HasField("curves"):
        _check_curves(tenant.curves, where)


def check_snapshot(snapshot: wire.Snapshot, last_sequence: int) -> None:
    """Check a snapshot; raises ProtocolError if it contradicts itself or the last one."""
    sequence, budget = snapshot.sequence, snapshot.budget_bytes
    fine = sequence > last_sequence
    _require(fine, f"snapshot: sequence: {sequence} (allowed: more than {last_sequence})")
    fine = 0 < budget <= BYTES_MAX
    _require(fine, f"snapshot: budget_bytes: {budget} (allowed: 1 to {BYTES_MAX})")
    device = snapshot.device
    for name in ("capacity_iops", "idle_read_us"):
        value = getattr(device, name)
        fine = math.isfinite(value) and value >= 0
        _require(fine, f"snapshot: device: {name}: {value} (allowed: a number of at least 0)")
    _check_conditions(snapshot.conditions, "snapshot")
    count = len(snapshot.tenants)
    _require(count <= TENANTS_MAX, f"snapshot: {count} tenants (allowed: at most {TENANTS_MAX})")
    seen = set()
    for tenant in snapshot.tenants:
        _check_tenant(tenant)
        _require(tenant.cgroup not in seen, f"tenant {tenant.cgroup[:80]!r}: twice in one snapshot")
        seen.add(tenant.cgroup)
