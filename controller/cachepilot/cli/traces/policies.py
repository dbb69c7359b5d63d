# SPDX-License-Identifier: Apache-2.0
"""`cachepilot policies`: the manifests of the policy folders."""

from typing import Annotated

import typer

from cachepilot import manifest
from cachepilot.cli.terminal import options, tables


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show this one, with its tunables.")
    ] = None,
    kind: Annotated[
        manifest.Kind, typer.Option("--kind", help="Policies that evict, or that read ahead.")
    ] = manifest.Kind.EVICTION,
    as_json: options.JsonOption = False,
) -> None:
    """List the policies, or show one with its tunables."""
    if name is not None:
        policy = manifest.find(name, kind)
        if as_json:
            every = manifest.manifests_json(kind)
            tables.print_json(next(one for one in every if one["name"] == policy.name))
        else:
            _print_one(policy)
    elif as_json:
        tables.print_json(manifest.manifests_json(kind))
    else:
        _print_all(list(manifest.policies(kind).values()))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _print_all(policies: list[manifest.Policy]) -> None:
    out = tables.console()
    wide = out.width >= tables.WIDE_COLUMNS
    table = tables.new_table()
    tables.add_columns(table, ["name", "kind"], "left")
    table.add_column("good at", ratio=3)
    table.add_column("bad at", ratio=3)
    if wide:
        table.add_column("tunables", ratio=2)
    tables.add_columns(table, ["produc-\ntion"], "left")
    tables.add_columns(table, ["state\nbytes"])
    for policy in policies:
        tunables = ", ".join(tunable.name for tunable in policy.tunables)
        table.add_row(
            tables.best(policy.name, policy.production),
            policy.kind,
            policy.good_at,
            policy.bad_at,
            *([tunables] if wide else []),
            _yes(policy.production),
            str(policy.folio_state_bytes),
        )
    out.print(table)


def _variant(variant: manifest.Variant) -> str:
    values = ", ".join(f"{tunable} = {value}" for tunable, value in variant.tunables.items())
    return f"{variant.name} ({values})"


def _print_one(policy: manifest.Policy) -> None:
    facts = tables.new_table(f"{policy.name}: {policy.title}")
    facts.show_header = False
    facts.add_column(no_wrap=True)
    facts.add_column()
    for label, text in (
        ("summary", policy.summary),
        ("good at", policy.good_at),
        ("bad at", policy.bad_at),
        ("paper", policy.paper),
        ("kind", policy.kind),
        ("production", _yes(policy.production)),
        ("state per folio", f"{policy.folio_state_bytes} bytes"),
        ("hooks", ", ".join(policy.hooks)),
        ("needs", ", ".join(policy.needs) or "nothing"),
        ("variants", "; ".join(map(_variant, policy.variants)) or "none"),
    ):
        facts.add_row(label, text)
    out = tables.console()
    out.print(facts)
    if not policy.tunables:
        out.print("No tunables.")
        return
    table = tables.new_table("tunables")
    tables.add_columns(table, ["name", "type"], "left")
    tables.add_columns(table, ["default"])
    tables.add_columns(table, ["allowed"], "left")
    table.add_column("description")
    for tunable in policy.tunables:
        kind = tunable.type if tunable.length == 1 else f"{tunable.type}[{tunable.length}]"
        allowed = f"{tunable.min} to {tunable.max}"
        description = f"{tunable.description} ({tunable.unit})"
        table.add_row(tunable.name, kind, str(tunable.default), allowed, description)
    out.print(table)
