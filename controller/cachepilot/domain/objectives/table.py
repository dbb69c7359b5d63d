# SPDX-License-Identifier: Apache-2.0
"""Objectives as plain values by the keys of the objectives file, for JSON, stores and TOML."""

from typing import Any

import tomli_w

from cachepilot.domain.objectives.objective import Counter, Indicator, Objective, Objectives


def _plain(number: float) -> int | float:
    """Write 5000.0 as 5000, as a person does."""
    return int(number) if number == int(number) and abs(number) < 1 << 53 else number


def _indicator(indicator: Indicator) -> str | dict[str, str]:
    if indicator.counter is Counter.PROMETHEUS:
        return {"prometheus": indicator.url, "metric": indicator.metric}
    return str(indicator.counter)


def objective_table(objective: Objective) -> dict[str, Any]:
    """Return one objective by its keys in the objectives file, without defaults.

    `file.objective_from` is the inverse.
    """
    default = Objective(pattern=objective.pattern)
    table: dict[str, Any] = {"cgroup": objective.pattern}
    for key in ("throughput_ops", "latency_p99_us", "hit_ratio", "weight", "priority", "keep"):
        value = getattr(objective, key)
        if value != getattr(default, key):
            table[key] = _plain(value)
    for key in ("memory_min", "memory_max"):
        size = getattr(objective, key)
        if size is not None:
            table[key] = size.text
    if objective.policies:
        table["policies"] = list(objective.policies)
    if objective.tasks:
        table["tasks"] = list(objective.tasks)
    if objective.mode is not default.mode:
        table["mode"] = str(objective.mode)
    if objective.indicator != default.indicator:
        table["indicator"] = _indicator(objective.indicator)
    if objective.cpus is not None:
        table["cpus"] = _plain(objective.cpus)
    for key in ("affinity", "anti_affinity"):
        if getattr(objective, key):
            table[key] = list(getattr(objective, key))
    if not objective.movable:
        table["movable"] = False
    return table


def objectives_document(objectives: Objectives) -> dict[str, Any]:
    """Return all objectives by the keys of the objectives file.

    `file.objectives_from` is the inverse.
    """
    document: dict[str, Any] = {"goal": str(objectives.goal)}
    document["tenant"] = [objective_table(objective) for objective in objectives.tenants]
    return document


def _value(value: Any) -> str:
    """Format a value on one line; the library would use a line per item or a heading."""
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_value(item)}' for key, item in value.items())} }}"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")


def objectives_toml(objectives: Objectives) -> str:
    """Return the text of an objectives file with the same meaning."""
    goal = {} if objectives.goal is Objectives.goal else {"goal": str(objectives.goal)}
    blocks = [tomli_w.dumps(goal)] if goal else []
    # Write one table per objective, as people do; the library would inline short ones in an array.
    for objective in objectives.tenants:
        lines = [f"{key} = {_value(item)}" for key, item in objective_table(objective).items()]
        blocks.append("\n".join(["[[tenant]]", *lines, ""]))
    return "\n".join(blocks)
