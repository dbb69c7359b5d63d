# SPDX-License-Identifier: Apache-2.0
r"""Parse the objectives file, which is TOML, key by key. An example is below.

goal = "proportional_fairness"

[[tenant]]
cgroup = "/sys/fs/cgroup/db*"
throughput_ops = 5000
priority = 10
memory_min = "64MiB"
policies = ["s3fifo", "lfu"]
tasks = ["compaction*"]
indicator = { prometheus = "http://[::1]:9100/metrics", metric = "reads_total{kind=\"get\"}" }
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cachepilot.domain.names import cgroup_pattern, is_plain
from cachepilot.domain.objectives.indicator_url import check_url
from cachepilot.domain.objectives.objective import (
    UPPER,
    Counter,
    Goal,
    Indicator,
    Mode,
    Objective,
    Objectives,
)
from cachepilot.domain.objectives.workload import workload_pattern
from cachepilot.errors import InputError
from cachepilot.sizes import ALLOWED, Size, parse_size

Reader = Callable[[object], Any]
PRIORITY_MAX = 1_000_000
TASKS_MAX, TASK_NAME_MAX = 16, 64
GLOBS_MAX = 16


class ObjectivesError(InputError):
    """An objectives file that is refused; names the file, the key and what is allowed."""


def _number(key: str, unit: str = "") -> Reader:
    """Return a reader of numbers above 0, at most the `UPPER` of `key`."""

    def read(value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 < value <= UPPER[key]:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        allowed = f"above 0 to {UPPER[key]:g}{unit}"
        raise ObjectivesError(f"{value!r} is not allowed (allowed: {allowed})")

    return read


def _priority(value: object) -> int:
    if type(value) is not int or abs(value) > PRIORITY_MAX:
        allowed = f"an integer, {-PRIORITY_MAX} to {PRIORITY_MAX}"
        raise ObjectivesError(f"{value!r} is not allowed (allowed: {allowed})")
    return value


def _share(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value <= 1:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ObjectivesError(f"{value!r} is not allowed (allowed: 0 to 1)")


def _size(value: object) -> Size:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ObjectivesError(f"{value!r} is not allowed (allowed: {ALLOWED})")
    return parse_size(str(value))


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ObjectivesError(f"{value!r} is not allowed (allowed: text that is not empty)")
    return value


def _pattern(value: object) -> str:
    pattern = cgroup_pattern(_text(value))
    workload_pattern(pattern)
    return pattern


def _policies(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    names = [name for name in given if isinstance(name, str) and is_plain(name)]
    if not names or len(names) < len(given) or len(set(names)) < len(names):
        allowed = "a policy to pin, or an array of policies, each once"
        raise ObjectivesError(f"{value!r} is not allowed (allowed: {allowed})")
    return tuple(names)


def _tasks(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else []
    names = [name for name in given if isinstance(name, str) and name.isprintable()]
    fine = 0 < len(names) <= TASKS_MAX and len(set(names)) == len(given)
    if not fine or not all(0 < len(name.encode()) <= TASK_NAME_MAX for name in names):
        allowed = f"an array of 1 to {TASKS_MAX} command names or globs, each once, "
        allowed += f"of 1 to {TASK_NAME_MAX} bytes"
        raise ObjectivesError(f"{value!r} is not allowed (allowed: {allowed})")
    return tuple(names)


def _globs(of_paths: bool) -> Reader:
    """Return a reader of an array of names or globs, each once.

    Paths of cgroups are converted to their canonical form.
    """

    def read(value: object) -> tuple[str, ...]:
        given = value if isinstance(value, list) else []
        names = [name for name in given if isinstance(name, str) and is_plain(name)]
        if of_paths:
            names = [name for name in names if workload_pattern(cgroup_pattern(name)) is None]
        if not 0 < len(names) <= GLOBS_MAX or len(set(names)) < len(given):
            what = "paths of cgroups" if of_paths else "names or labels of nodes"
            allowed = f"an array of 1 to {GLOBS_MAX} {what}, or globs, each once"
            raise ObjectivesError(f"{value!r} is not allowed (allowed: {allowed})")
        return tuple(map(cgroup_pattern, names)) if of_paths else tuple(names)

    return read


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ObjectivesError(f"{value!r} is not allowed (allowed: true or false)")
    return value


def _choice(kind: type[Goal] | type[Mode]) -> Reader:
    def read(value: object) -> Goal | Mode:
        names = [str(member) for member in kind]
        if value not in names:
            raise ObjectivesError(f"{value!r} is not allowed (allowed: {', '.join(names)})")
        return kind(value)

    return read


def _indicator(value: object) -> Indicator:
    names = [str(member) for member in Counter if member is not Counter.PROMETHEUS]
    if value in names:
        return Indicator(Counter(value))
    keys = {"prometheus", "metric"}
    if isinstance(value, dict) and value.keys() == keys:
        url, metric = value["prometheus"], value["metric"]
        if isinstance(url, str) and isinstance(metric, str) and all(map(is_plain, (url, metric))):
            return Indicator(Counter.PROMETHEUS, check_url(url), metric)
    allowed = f'{", ".join(names)}, or {{prometheus = "http://...", metric = "name"}}'
    raise ObjectivesError(f"{value!r} is not allowed (allowed: {allowed})")


_READERS: Mapping[str, Reader] = {
    "cgroup": _pattern,
    "throughput_ops": _number("throughput_ops", " operations per second"),
    "latency_p99_us": _number("latency_p99_us", " microseconds"),
    "hit_ratio": _number("hit_ratio"),
    "weight": _number("weight"),
    "priority": _priority,
    "keep": _share,
    "memory_min": _size,
    "memory_max": _size,
    "policies": _policies,
    "tasks": _tasks,
    "mode": _choice(Mode),
    "indicator": _indicator,
    "cpus": _number("cpus", " CPUs"),
    "affinity": _globs(of_paths=False),
    "anti_affinity": _globs(of_paths=True),
    "movable": _flag,
}


def _known_only(table: Mapping[str, object], known: Mapping[str, object], where: str) -> None:
    unknown = sorted(table.keys() - known.keys())
    if unknown:
        names = ", ".join(known)
        raise ObjectivesError(f"{where}: unknown key {unknown[0]!r} (allowed: {names})")


def objective_from(table: object, where: str) -> Objective:
    """Return one objective from its table of keys.

    An ObjectivesError names `where`, the key and the allowed range.
    """
    if not isinstance(table, dict):
        raise ObjectivesError(f"{where}: must be a table, written [[tenant]]")
    _known_only(table, _READERS, where)
    if "cgroup" not in table:
        raise ObjectivesError(f"{where}: cgroup: is missing (allowed: a path or a glob of paths)")
    values: dict[str, Any] = {}
    for key, value in table.items():
        try:
            values["pattern" if key == "cgroup" else key] = _READERS[key](value)
        except InputError as error:
            raise ObjectivesError(f"{where}: {key}: {error}") from None
    objective = Objective(**values)
    _check_memory(objective, where)
    return objective


def _check_memory(objective: Objective, where: str) -> None:
    least, most = objective.memory_min, objective.memory_max
    if least is None or most is None:
        return
    pairs = ((least.share, most.share), (least.pages, most.pages))
    if any(low is not None and high is not None and low > high for low, high in pairs):
        raise ObjectivesError(
            f"{where}: memory_min: {least.text} is more than memory_max, {most.text} "
            f"(allowed: at most {most.text})"
        )


def objectives_from(document: Mapping[str, object], name: str) -> Objectives:
    """Return all objectives of a document; an ObjectivesError names the file and the key."""
    _known_only(document, {"goal": None, "tenant": None}, name)
    tables = document.get("tenant", [])
    if not isinstance(tables, list):
        raise ObjectivesError(f"{name}: tenant: must be tables, written [[tenant]]")
    found = tuple(objective_from(table, f"{name}: tenant {i}") for i, table in enumerate(tables, 1))
    patterns = [objective.pattern for objective in found]
    for i, pattern in enumerate(patterns, 1):
        if pattern in patterns[: i - 1]:
            raise ObjectivesError(
                f"{name}: tenant {i}: cgroup: {pattern!r} is there twice (allowed: each once)"
            )
    try:
        goal = _choice(Goal)(document.get("goal", str(Objectives.goal)))
    except ObjectivesError as error:
        raise ObjectivesError(f"{name}: goal: {error}") from None
    return Objectives(tenants=found, goal=goal)


def parse_objectives(text: str, name: str) -> Objectives:
    """Parse the text of the file `name`.

    An ObjectivesError names the file, the key and the allowed range.
    """
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise ObjectivesError(f"{name}: is not TOML: {error}") from None
    return objectives_from(document, name)


def read_objectives(path: Path) -> Objectives:
    """Read and parse the objectives file `path`.

    An ObjectivesError names the file, the key and the allowed range.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise ObjectivesError(f"{path}: cannot be read: {error}") from None
    return parse_objectives(text, str(path))
