# SPDX-License-Identifier: Apache-2.0
"""`cachepilot plan --what-if`: the plan under other assumptions."""

from collections.abc import Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Annotated, TypeVar

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachepilot.api.shapes.questions import Applied, WhatIf, WhatIfAnswer
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.accepting import YesOption, ordered
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, ControllerError, near, parsed
from cachepilot.cli.fleet.status_table import SLO_NAMES
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.errors import InputError
from cachepilot.readable import moment
from cachepilot.sizes import human_bytes

STYLES = {"met": "green", "approaching": "yellow", "unknown": "yellow"}
"""Styles for what is predicted of an SLO; red for one that is predicted to be missed."""
T = TypeVar("T")


def _node(controller: Controller, name: str | None) -> tuple[str, int]:
    """Return the chosen node's name and its memory capacity in bytes."""
    budgets = {node.name: node.budget_bytes for node in controller.nodes()}
    if name is not None:
        if name not in budgets:
            raise ControllerError(f"no node {name} ({near(name, list(budgets))})")
        return name, budgets[name]
    if len(budgets) != 1:
        raise ControllerError(f"--node is needed ({near('', list(budgets))})")
    return next(iter(budgets.items()))


def _by_cgroup(option: str, told: Mapping[str, T], cgroups: Mapping[str, str]) -> dict[str, T]:
    """Return the values keyed by cgroup instead of the given names.

    Raises InputError if two names mean the same cgroup.
    """
    found: dict[str, T] = {}
    for name, value in told.items():
        if cgroups[name] in found:
            raise InputError(
                f"{option} {name}: {cgroups[name]} is there twice (allowed: each once)"
            )
        found[cgroups[name]] = value
    return found


def _table(answer: WhatIfAnswer) -> Table:
    table = tables.new_table(f"{answer.node}: predicted now and then")
    tables.add_columns(table, ["tenant", "policy"], "left")
    tables.add_columns(table, ["limit", "miss ratio", "ops/s", "gain"])
    tables.add_columns(table, ["SLO predicted"], "left")
    for row in answer.tenants:
        changed = row.policy != row.to_policy
        gain = None
        miss, ops = formats.UNKNOWN, formats.UNKNOWN
        if row.predicted:
            gain = row.to_throughput_ops / row.throughput_ops - 1 if row.throughput_ops else None
            miss = f"{row.miss_ratio:.4f} → {row.to_miss_ratio:.4f}"
            ops = f"{formats.count(row.throughput_ops)} → {formats.count(row.to_throughput_ops)}"
        slos = Text("\n").join(
            Text(
                f"{SLO_NAMES.get(slo.kind, slo.kind)} {formats.short_state(slo.state)}",
                style=STYLES.get(slo.state, "red"),
            )
            for slo in row.slos
        )
        table.add_row(
            row.cgroup,
            f"{row.policy} → {row.to_policy}" if changed else row.policy,
            f"{formats.limit(row.limit_bytes)} → {formats.limit(row.to_limit_bytes)}",
            miss,
            ops,
            formats.UNKNOWN if gain is None else f"{gain:+.1%}",
            slos,
        )
    return table


def _parts(answer: WhatIfAnswer) -> Iterator[RenderableType]:
    yield _table(answer)
    free = human_bytes(answer.unallocated_bytes)
    busy = formats.share(answer.device_share, 0)
    yield Text(f"{free} stay unallocated, the device is {busy} busy; nothing was changed")
    for note in answer.notes:
        yield Text(f"note: {note}")


def _apply(remote: Controller, question: WhatIf, hold_s: float, yes: bool, as_json: bool) -> None:
    if not isfinite(hold_s):
        raise InputError(f"--hold-s {hold_s}: not seconds (allowed: a number; 0: until unpinned)")
    wanted = {**question.model_dump(mode="json"), "hold_s": hold_s or None}
    answer = ordered(remote, "what-if/apply", wanted, yes)
    if as_json:
        tables.print_json(answer)
        return
    done = parsed(Applied, answer)
    print(done.what)
    if done.until_s is not None:
        print(f"policies and limits are held until {moment(done.until_s)}")
    if done.change is not None:
        print("to undo it: cachepilot undo")


@asking
def command(
    remote: Controller,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Predict only; change nothing. Required."),
    ] = False,
    budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory of the node, like 8GiB.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option(metavar="CGROUP=NAME", help="Fix a policy; repeatable.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="CGROUP=SIZE", help="Fix a limit; repeatable.")
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="CGROUP=OPS", help="A throughput SLO, ops/s; repeatable."),
    ] = None,
    next_cycle: Annotated[
        bool, typer.Option("--next", help="Only the next cycle, in which limits move a little.")
    ] = False,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Node; required if there are several.",
            autocompletion=completing.nodes,
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Put it into force: as pins that end, and objectives.")
    ] = False,
    hold_s: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="With --apply: how long pins last; 0: until unpinned."
        ),
    ] = 3600.0,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict a plan, also with other SLOs or limits; changes nothing without --apply.

    For instance: cachepilot plan --what-if --budget 8GiB --slo /db=5000 --policy /search=sieve
    """
    if not what_if:
        raise InputError("plan: plans are made by the controller (allowed: plan --what-if ...)")
    policies = formats.parse_pairs("--policy", policy, lambda _option, name: name)
    rates = formats.parse_pairs("--slo", slo, formats.parse_rate)
    budget_bytes = None if budget is None else formats.parse_bytes("--budget", budget)
    name, whole = _node(remote, node)
    whole = budget_bytes or whole
    limits = formats.parse_pairs("--limit", limit, partial(formats.parse_bytes, of_bytes=whole))
    cgroups = {cgroup: remote.cgroup(cgroup, name) for cgroup in {*policies, *limits, *rates}}
    question = WhatIf(
        node=name,
        budget_bytes=budget_bytes,
        policy=_by_cgroup("--policy", policies, cgroups),
        limit_bytes=_by_cgroup("--limit", limits, cgroups),
        throughput_ops=_by_cgroup("--slo", rates, cgroups),
        settled=not next_cycle,
    )
    if apply:
        _apply(remote, question, hold_s, yes, as_json)
        return
    answer = remote.call("POST", "what-if", question.model_dump(mode="json"))
    if as_json:
        tables.print_json(answer)
        return
    out = tables.console()
    for part in _parts(parsed(WhatIfAnswer, answer)):
        out.print(part)
