# SPDX-License-Identifier: Apache-2.0
"""`cachepilot free`: memory of each node that no tenant needs, for people and schedulers."""

import json
from shlex import quote
from typing import Annotated

import typer

from cachepilot.api.serving.free_files import line_of
from cachepilot.api.shapes.views import NodeView
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import Controller, ControllerError, near
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.sizes import human_bytes

RESOURCE = "cachepilot.dev/free-memory"
MINUTE_S = 60


@asking
def command(
    remote: Controller,
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this node.", autocompletion=completing.nodes),
    ] = None,
    kubernetes: Annotated[
        bool,
        typer.Option(
            "--kubernetes",
            help="Print commands of kubectl that annotate each node and set an extended resource.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how much memory of each node is free, for how long, and how sure that is.

    `sure` was free all the time for so long. The confidence is the chance that as much is free
    all through the next minute.
    """
    views = remote.nodes()
    if node is not None and node not in {one.name for one in views}:
        raise ControllerError(f"no node {node} ({near(node, [one.name for one in views])})")
    found = [one for one in views if node in (None, one.name)]
    if kubernetes:
        typer.echo("\n".join(line for one in found for line in kubectl(one)))
    elif as_json:
        tables.print_json([line_of(one) for one in found])
    else:
        table = tables.new_table("")
        tables.add_columns(table, ["node"], "left")
        tables.add_columns(table, ["free", "sure", "for", "confidence"])
        for one in found:
            minutes = f"{one.free_for_s / MINUTE_S:.0f} min"
            told = human_bytes(one.free_bytes), human_bytes(one.sure_free_bytes), minutes
            table.add_row(one.name, *told, formats.share(one.free_confidence, 0))
        tables.console().print(table)


def kubectl(node: NodeView) -> list[str]:
    """Return commands that publish a node's surely free memory to Kubernetes."""
    name, sure = quote(node.name), node.sure_free_bytes
    path = "/status/capacity/" + RESOURCE.replace("/", "~1")
    patch = json.dumps([{"op": "add", "path": path, "value": str(sure)}])
    confidence = f"{RESOURCE}-confidence={node.free_confidence:.4f}"
    return [
        f"kubectl annotate --overwrite node {name} {RESOURCE}={sure} {confidence}",
        f"kubectl patch node {name} --subresource=status --type=json -p {quote(patch)}",
    ]
