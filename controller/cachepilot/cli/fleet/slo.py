# SPDX-License-Identifier: Apache-2.0
"""`cachepilot slo`: the objectives of tenants, by command or by file."""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from cachepilot.api.shapes.matching import unmatched_of, workloads_of
from cachepilot.api.shapes.objectives import ObjectivesShape
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, UnknownToControllerError, near, parsed
from cachepilot.cli.terminal import tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.domain.names import cgroup_pattern, of_key
from cachepilot.domain.objectives.file import objective_from, read_objectives
from cachepilot.domain.objectives.objective import UNNAMED, Objective, Objectives
from cachepilot.domain.objectives.table import objective_table, objectives_document, objectives_toml
from cachepilot.errors import InputError
from cachepilot.openslo.export import openslo_yaml
from cachepilot.openslo.reading import read_openslo

app = typer.Typer(
    help="State objectives per cgroup: SLOs, weights, bounds and modes.",
    rich_markup_mode=None,
    no_args_is_help=False,
)
KEYS = (
    *("throughput_ops", "latency_p99_us", "hit_ratio", "weight", "priority", "keep"),
    *("memory_min", "memory_max", "policies", "tasks", "mode", "indicator"),
)
PATTERN = of_key("CGROUP", cgroup_pattern)
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would change; change nothing.")
]
PatternArgument = Annotated[
    str,
    typer.Argument(
        metavar="CGROUP",
        help="Path of a cgroup, or a glob of paths, quoted.",
        autocompletion=completing.tenants,
    ),
]


def _objectives(document: Any) -> Objectives:
    return parsed(ObjectivesShape, document).objectives()


def _stated(controller: Controller) -> Objectives:
    return _objectives(controller.call("GET", "objectives"))


def _note_unmatched(patterns: Sequence[str]) -> None:
    tables.print_notes([f"{one}: matches no known tenant" for one in patterns])


def _show_difference(before: Objectives, after: Objectives) -> None:
    """Print the differences between the objectives files before and after."""
    old, new = (objectives_toml(each).splitlines() for each in (before, after))
    out = tables.console()
    for line in list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        out.print(Text(line, style=style), soft_wrap=True)


def _change(before: Objectives, after: Objectives, dry_run: bool, as_json: bool) -> bool:
    """Show the difference; return whether the caller should apply the change."""
    if as_json:
        if dry_run:
            tables.print_json(objectives_document(after))
        return not dry_run
    if before == after:
        print("nothing changes")
        return False
    _show_difference(before, after)
    if dry_run:
        print("dry run: nothing was changed")
    return not dry_run


def _finish(document: Any, as_json: bool) -> None:
    if as_json:
        tables.print_json(document)
    else:
        print("stored")


@app.command(name="get")
@asking
def get(
    remote: Controller,
    cgroup: Annotated[
        str | None,
        typer.Argument(metavar="[CGROUP]", help="Only the objective that applies to this cgroup."),
    ] = None,
    as_openslo: Annotated[
        bool, typer.Option("--openslo", help="As OpenSLO v1, a document for each SLO.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the objectives as a file that `slo apply` takes, or what holds for one cgroup."""
    if as_openslo and (as_json or cgroup is not None):
        raise InputError("--openslo: is of all objectives (allowed: without --json and CGROUP)")
    document = remote.call("GET", "objectives")
    objectives = _objectives(document)
    if not as_json and cgroup is None:
        _note_unmatched(document.get("unmatched", []))
    if as_openslo:
        text, notes = openslo_yaml(objectives)
        tables.print_notes(notes)
        print(text, end="")
        return
    if cgroup is None:
        if as_json:
            tables.print_json(document)
        else:
            print(objectives_toml(objectives) or "# no objectives: every cgroup is left alone")
        return
    if objectives.names_workloads:
        objectives = objectives.among(workloads_of(remote.tenants()))
    cgroup = PATTERN(cgroup)
    found = objectives.of(cgroup)
    if as_json:
        tables.print_json(None if found is UNNAMED else objective_table(found))
    elif found is UNNAMED:
        print(f"# no objective matches {cgroup}: it is left alone")
    else:
        print(objectives_toml(Objectives((found,))), end="")


def _indicator(text: str) -> str | dict[str, str]:
    url, hash_, metric = text.partition("#")
    return {"prometheus": url, "metric": metric} if hash_ else text


def _statement(
    before: Objectives, pattern: str, given: dict[str, Any], unset: list[str]
) -> Objective:
    """Return the objective of `pattern` with `given` keys replaced and `unset` keys at default."""
    found = next((one for one in before.tenants if one.pattern == pattern), None)
    table = {"cgroup": pattern} if found is None else objective_table(found)
    for key in unset:
        if key not in KEYS:
            raise InputError(f"--unset {key}: not a key (allowed: {', '.join(KEYS)})")
        if key in given:
            raise InputError(f"--unset {key}: is also set (allowed: one of both)")
        table.pop(key, None)
    return objective_from(table | given, f"slo set {pattern}")


@app.command(name="set")
@asking
def set_(
    remote: Controller,
    cgroup: PatternArgument,
    throughput_ops: Annotated[
        float | None, typer.Option(metavar="N", help="SLO: operations per second, at least.")
    ] = None,
    latency_p99_us: Annotated[
        float | None, typer.Option(metavar="N", help="SLO: p99 of read calls, microseconds.")
    ] = None,
    hit_ratio: Annotated[
        float | None, typer.Option(metavar="SHARE", help="SLO: hit ratio, at least; 0 to 1.")
    ] = None,
    weight: Annotated[
        float | None, typer.Option(metavar="N", help="Weight of its throughput beyond SLOs.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="SLOs of a higher priority come first.")
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Kept share of its throughput at its first memory; 0 to 1."
        ),
    ] = None,
    memory_min: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Least memory: 64MiB, or a share: 5%.")
    ] = None,
    memory_max: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most memory: 2GiB, or a share: 50%.")
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(metavar="NAME[,NAME...]", help="Allowed policies; a single one is pinned."),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME...]",
            help="Commands, or globs, that read much and reuse nothing: 'rocksdb:low,backup*'.",
        ),
    ] = None,
    mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="observe, recommend or auto.")
    ] = None,
    indicator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What counts as an operation: accesses, read_calls, block_reads, or URL#METRIC, "
            "a Prometheus counter of the application.",
        ),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Reset a key to its default; repeatable."),
    ] = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add an objective, or change the given keys of the one that there is.

    For instance: cachepilot slo set /db --throughput-ops 5000 --priority 10
    """
    cgroup = PATTERN(cgroup)
    values = (throughput_ops, latency_p99_us, hit_ratio, weight, priority, keep)
    given: dict[str, Any] = dict(zip(KEYS, (*values, memory_min, memory_max), strict=False))
    for key, names in (("policies", policies), ("tasks", tasks)):
        given[key] = None if names is None else names.split(",")
    given["mode"] = mode
    given |= {"indicator": None if indicator is None else _indicator(indicator)}
    given = {key: value for key, value in given.items() if value is not None}
    before = _stated(remote)
    objective = _statement(before, cgroup, given, unset or [])
    known = [one.pattern for one in before.tenants]
    tenants = tuple(objective if one.pattern == cgroup else one for one in before.tenants)
    after = replace(before, tenants=tenants if cgroup in known else (*tenants, objective))
    if not as_json:
        _note_unmatched(unmatched_of(Objectives((objective,)), remote.tenants()))
    if _change(before, after, dry_run, as_json):
        _finish(remote.call("POST", "objectives", objective_table(objective)), as_json)


def _read(file: Path) -> Objectives:
    if file.suffix not in (".yaml", ".yml"):
        return read_objectives(file)
    objectives, notes = read_openslo(file)
    tables.print_notes(notes)
    return objectives


@app.command()
@asking
def apply(
    remote: Controller,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Objectives, TOML; or .yaml, OpenSLO v1.")
    ],
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replace all objectives by those of a file, after showing the difference."""
    after = _read(file)
    if not as_json:
        _note_unmatched(unmatched_of(after, remote.tenants()))
    if _change(_stated(remote), after, dry_run, as_json):
        _finish(remote.call("PUT", "objectives", objectives_document(after)), as_json)


@app.command()
@asking
def delete(
    remote: Controller,
    cgroup: PatternArgument,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the objective of a cgroup, as stated."""
    before, cgroup = _stated(remote), PATTERN(cgroup)
    known = [one.pattern for one in before.tenants]
    if cgroup not in known:
        raise UnknownToControllerError(f"no objective of {cgroup} ({near(cgroup, known)})")
    left = tuple(one for one in before.tenants if one.pattern != cgroup)
    if _change(before, replace(before, tenants=left), dry_run, as_json):
        _finish(remote.call("DELETE", "objectives", cgroup=cgroup), as_json)
