# SPDX-License-Identifier: Apache-2.0
"""The planner's view of one node at one time: the device, and the tenants with their curves.

A decision depends only on this, on the objectives and on the configuration.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from cachepilot.domain.units import BYTES_MAX
from cachepilot.errors import InputError
from cachepilot.quick_records import quickly_made

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

TENANTS_MAX = 1 << 14


class SnapshotError(InputError):
    """A snapshot, or a part of one, that contradicts itself; names the field and its range.

    An error of a tenant or of a node names it. An error of curves, a demand or indicators cannot,
    since these do not know their tenant.
    """


def _require(fine: bool, message: str) -> None:
    if not fine:
        raise SnapshotError(message)


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _require_positive(part: str, **values: float) -> None:
    for name, value in values.items():
        if not _is_positive(value):
            raise SnapshotError(f"{part}: {name} must be a positive number, not {value}")


def _same(one: FloatArray | None, other: FloatArray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _kept(array: npt.ArrayLike, *kinds: type[np.generic]) -> npt.NDArray[Any]:
    """Return a read-only array of one of `kinds`; of the first one if the dtype is another.

    Copies the array unless it has such a dtype and is read-only already.
    """
    if isinstance(array, np.ndarray) and not array.flags.writeable and array.dtype.type in kinds:
        return array
    found = np.array(array)
    if found.dtype.type not in kinds:
        found = found.astype(kinds[0])
    found.setflags(write=False)
    return found


def _least(values: npt.NDArray[Any]) -> Any:
    return np.minimum.reduce(values, axis=None)


@dataclass(frozen=True, eq=False)
class Curves:
    """Miss ratio curves of one tenant, all policies over one grid of sizes.

    `sizes_bytes` has shape (S,), positive and rising. `miss_ratio` has shape (P, S), a row per
    policy, in [0, 1]. `error_bar`, of the same shape, is the possible error of each miss ratio, or
    None if not known. `step_bar`, of the same shape, is the possible error of the difference to the
    next smaller size; at the first size that of the value itself. All arrays are read-only, and
    copied unless they were; single precision is preserved. Below the first size a curve is a
    straight line to a miss ratio of 1 at no memory. Beyond the last size it is constant.
    """

    # Allows arrays when pydantic writes records; `json_values` encodes them.
    __pydantic_config__: ClassVar = {"arbitrary_types_allowed": True}

    policies: tuple[str, ...]
    sizes_bytes: IntArray
    miss_ratio: FloatArray
    error_bar: FloatArray | None = None
    step_bar: FloatArray | None = None

    def __post_init__(self) -> None:
        sizes = _kept(self.sizes_bytes, np.int64)
        ratios = _kept(self.miss_ratio, np.float64, np.float32)
        _require(sizes.ndim == 1 and sizes.size > 0, "curves: sizes_bytes must be a row of sizes")
        shape = (len(self.policies), sizes.size)
        _require(ratios.shape == shape, f"curves: miss_ratio must have the shape {shape}")
        unique = len(set(self.policies)) == len(self.policies) > 0
        _require(unique, "curves: policies must be named, each once")
        # A list of so few sizes is checked in a fraction of the time that an array takes.
        row = sizes.tolist()
        rising = row[0] > 0 and row[-1] <= BYTES_MAX and sorted(set(row)) == row
        _require(rising, f"curves: sizes_bytes must be positive and rising, at most {BYTES_MAX}")
        in_range = bool(_least(ratios) >= 0 and np.maximum.reduce(ratios, axis=None) <= 1)
        _require(in_range, "curves: miss_ratio must be in [0, 1]")
        arrays = {"sizes_bytes": sizes, "miss_ratio": ratios}
        for name in ("error_bar", "step_bar"):
            told = getattr(self, name)
            if told is not None:
                bars = _kept(told, np.float64, np.float32)
                _require(bars.shape == shape, f"curves: {name} must have the shape {shape}")
                _require(bool(_least(bars) >= 0), f"curves: {name} must be at least 0")
                arrays[name] = bars
        for name, array in arrays.items():
            object.__setattr__(self, name, array)

    @classmethod
    def of_checked(
        cls,
        policies: tuple[str, ...],
        sizes_bytes: IntArray,
        miss_ratio: FloatArray,
        error_bar: FloatArray | None,
        step_bar: FloatArray | None,
    ) -> "Curves":
        """Build curves from parts of valid ones, without checks or copies.

        The caller must be sure that the result is valid.
        """
        found = object.__new__(cls)
        object.__setattr__(found, "policies", policies)
        object.__setattr__(found, "sizes_bytes", sizes_bytes)
        object.__setattr__(found, "miss_ratio", miss_ratio)
        object.__setattr__(found, "error_bar", error_bar)
        object.__setattr__(found, "step_bar", step_bar)
        return found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Curves)
            and self.policies == other.policies
            and np.array_equal(self.sizes_bytes, other.sizes_bytes)
            and np.array_equal(self.miss_ratio, other.miss_ratio)
            and _same(self.error_bar, other.error_bar)
            and _same(self.step_bar, other.step_bar)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Trust:
    """Whether a plan may rely on the curves, and if not, why.

    `is_measured` means that only the curves have low confidence: operations were measured.
    """

    trusted: bool = True
    reason: str = ""
    is_measured: bool = False


@quickly_made
@dataclass(frozen=True, slots=True)
class Demand:
    """What one operation of a tenant needs, as fitted; see `cachepilot.model.fitting`.

    `service_us` is the time per operation if everything hits, `accesses_per_op` are the page
    accesses that the operation waits for, and `concurrency` the operations in flight. `error_pct`
    is the mean absolute error of the model's one-step predictions of throughput so far, None before
    the first one. At a miss ratio m the operation causes `reads_per_op` x m device reads, as
    measured. If that is None, it waits for each of its reads.
    """

    service_us: float
    accesses_per_op: float
    concurrency: float = 1.0
    error_pct: float | None = None
    reads_per_op: float | None = None

    def __post_init__(self) -> None:
        # Thousands are created per cycle, so valid values pass with one comparison.
        if not (
            0 < self.service_us < math.inf
            and 0 < self.accesses_per_op < math.inf
            and 0 < self.concurrency < math.inf
        ):
            _require_positive(
                "demand",
                service_us=self.service_us,
                accesses_per_op=self.accesses_per_op,
                concurrency=self.concurrency,
            )


@quickly_made
@dataclass(frozen=True, slots=True)
class Indicators:
    """Present readings: operations and device reads per second, miss ratio, p99 of an operation.

    `cpus` is CPU time per second, that is, the number of CPUs in use. None if not known.
    """

    throughput_ops: float
    miss_ratio: float
    device_iops: float
    latency_p99_us: float | None = None
    cpus: float | None = None

    def __post_init__(self) -> None:
        fine = 0 <= self.throughput_ops < math.inf and 0 <= self.device_iops < math.inf
        for name in () if fine else ("throughput_ops", "device_iops"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise SnapshotError(f"indicators: {name} must be at least 0, not {value}")
        if not 0 <= self.miss_ratio <= 1:
            miss = self.miss_ratio
            raise SnapshotError(f"indicators: miss_ratio must be in [0, 1], not {miss}")
        if self.latency_p99_us is not None and not 0 < self.latency_p99_us < math.inf:
            _require_positive("indicators", latency_p99_us=self.latency_p99_us)
        if self.cpus is not None and not 0 <= self.cpus < math.inf:
            raise SnapshotError(f"indicators: cpus must be at least 0, not {self.cpus}")


@quickly_made
@dataclass(frozen=True, slots=True)
class Tenant:
    """One managed cgroup: its present setting, the least it may have, and what is known of it.

    For a cgroup without a limit, `limit_bytes` is the memory that it uses. A tenant without
    `curves` is not changed. `first_bytes` is its first memory, the limit that it had before
    anything was planned for it; 0 while not known. `certain` replaces `curves` that have low
    confidence: a curve of the present policy alone, limited to what is certain
    (`cachepilot.sense.turnover`). `first_miss` is the miss ratio that was measured with the first
    memory, 0 while not known. `yielded` names the program that sets its limit instead of the
    planner; empty if there is none.
    """

    cgroup: str
    policy: str
    limit_bytes: int
    floor_bytes: int
    curves: Curves | None
    demand: Demand
    indicators: Indicators
    trust: Trust = Trust()
    first_bytes: int = 0
    certain: Curves | None = None
    first_miss: float = 0.0
    yielded: str = ""

    def __post_init__(self) -> None:
        fine = (
            0 <= self.limit_bytes <= BYTES_MAX
            and 0 <= self.floor_bytes <= BYTES_MAX
            and 0 <= self.first_bytes <= BYTES_MAX
        )
        for name in () if fine else ("limit_bytes", "floor_bytes", "first_bytes"):
            value = getattr(self, name)
            if not 0 <= value <= BYTES_MAX:
                raise SnapshotError(f"{self.cgroup}: {name} must be 0 to {BYTES_MAX}, not {value}")

    def with_bounds(
        self,
        floor_bytes: int,
        first_bytes: int,
        curves: Curves | None = None,
        certain: Curves | None = None,
        first_miss: float = 0.0,
    ) -> "Tenant":
        """Return the tenant with another floor, first memory and so on, and other curves if given.

        `dataclasses.replace` takes three times as long.
        """
        return Tenant(
            self.cgroup,
            self.policy,
            self.limit_bytes,
            floor_bytes,
            self.curves if curves is None else curves,
            self.demand,
            self.indicators,
            self.trust,
            first_bytes,
            certain,
            first_miss,
            self.yielded,
        )


@dataclass(frozen=True)
class Device:
    """The device from which all tenants of a node read.

    It serves `capacity_iops` reads per second. A read takes `miss_cost_us` if nothing waits. While
    the share r of the capacity is used, a read waits `queueing_us` x r / (1 - r): Kingman's formula
    (1961), whose factor is the mean service time times the variability of arrivals and service.
    """

    capacity_iops: float
    miss_cost_us: float
    queueing_us: float = 0.0

    def __post_init__(self) -> None:
        _require_positive(
            "device", capacity_iops=self.capacity_iops, miss_cost_us=self.miss_cost_us
        )
        if not (math.isfinite(self.queueing_us) and self.queueing_us >= 0):
            raise SnapshotError(f"device: queueing_us {self.queueing_us}: must be finite and >= 0")

    def without_queueing(self) -> "Device":
        """The same device if reads wait only once the whole capacity is used."""
        return Device(self.capacity_iops, self.miss_cost_us)


@dataclass(frozen=True)
class Node:
    """A host and the memory that its tenants share.

    `away_bytes` of it are reserved for tenants that are missing from the snapshot and may return,
    or that are to arrive. `cpus` is the number of its CPUs, None if not known.
    """

    name: str
    budget_bytes: int
    away_bytes: int = 0
    cpus: float | None = None

    @property
    def shared_bytes(self) -> int:
        """The memory that the tenants of the snapshot may have together."""
        return max(0, self.budget_bytes - self.away_bytes)

    def __post_init__(self) -> None:
        fine = 0 < self.budget_bytes <= BYTES_MAX
        allowed = f"must be 1 to {BYTES_MAX}, not {self.budget_bytes}"
        _require(fine, f"node {self.name}: budget_bytes {allowed}")
        fine = self.cpus is None or _is_positive(self.cpus)
        _require(fine, f"node {self.name}: cpus must be a positive number, not {self.cpus}")


@dataclass(frozen=True)
class Snapshot:
    """One node at `time_s`, seconds since 1970, in control interval `epoch`."""

    epoch: int
    time_s: float
    node: Node
    device: Device
    tenants: tuple[Tenant, ...]

    def __post_init__(self) -> None:
        _require(self.epoch >= 0, f"epoch must be at least 0, not {self.epoch}")
        count = len(self.tenants)
        allowed = f"must be at most {TENANTS_MAX}, not {count}"
        _require(count <= TENANTS_MAX, f"node {self.node.name}: tenants {allowed}")
        seen: set[str] = set()
        for tenant in self.tenants:
            if tenant.cgroup in seen:
                raise SnapshotError(f"{tenant.cgroup}: twice in one snapshot")
            seen.add(tenant.cgroup)
