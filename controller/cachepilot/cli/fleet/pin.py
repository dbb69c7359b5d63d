# SPDX-License-Identifier: Apache-2.0
"""`cachepilot pin`, `unpin` and `revert`: fixes the policy or the limit of one tenant."""

import sys
from typing import Annotated

import typer

from cachepilot.api.shapes.questions import Pin
from cachepilot.cli.asking import completing
from cachepilot.cli.asking.accepting import YesOption, ordered
from cachepilot.cli.asking.asking import asking
from cachepilot.cli.asking.client import (
    Controller,
    NodeOption,
    TenantArgument,
    UnknownToControllerError,
    parsed,
)
from cachepilot.cli.terminal import formats, tables
from cachepilot.cli.terminal.options import JsonOption
from cachepilot.errors import InputError
from cachepilot.readable import moment


def _pinned(policy: str | None, limit_bytes: int | None) -> str:
    parts = [] if policy is None else [f"policy {policy}"]
    parts += [] if limit_bytes is None else [f"limit {formats.limit(limit_bytes)}"]
    return ", ".join(parts)


def _limit_bytes(remote: Controller, cgroup: str, node: str | None, text: str) -> int:
    """Return the size in bytes; a share refers to the memory capacity of the tenant's nodes."""
    on = {one.node for one in remote.tenants(node) if one.cgroup == cgroup}
    sizes = {
        formats.parse_bytes("--limit", text, one.budget_bytes)
        for one in remote.nodes()
        if one.name in on
    }
    if not sizes:
        raise UnknownToControllerError(f"no tenant {cgroup} any more (allowed: one that is there)")
    if len(sizes) != 1:
        raise InputError(f"--limit {text}: differs from node to node (allowed: with --node)")
    return sizes.pop()


def _tell_stale(remote: Controller, cgroup: str, node: str | None) -> None:
    """Name on stderr each stale node of a tenant that was pinned."""
    for one in remote.tenants(node):
        if one.cgroup == cgroup and one.stale:
            print(
                f"{one.node} is stale: what it does now is not known; the pin takes effect there "
                "once its agent sends again",
                file=sys.stderr,
            )


@asking
def pin(
    remote: Controller,
    tenant: TenantArgument,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Keep this policy; 'default' is the kernel's.",
            autocompletion=completing.policies,
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Keep this limit: 512MiB, 131072pages or 5%."),
    ] = None,
    node: NodeOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fix the policy, the limit or both of a tenant until it is unpinned."""
    if policy is None and limit is None:
        raise InputError("pin: nothing to pin (allowed: --policy, --limit, or both)")
    cgroup = remote.cgroup(tenant, node)
    limit_bytes = None if limit is None else _limit_bytes(remote, cgroup, node, limit)
    wanted = {"cgroup": cgroup, "node": node, "policy": policy, "limit_bytes": limit_bytes}
    pinned = ordered(remote, "pins", wanted, yes)
    _tell_stale(remote, cgroup, node)
    if as_json:
        tables.print_json(pinned)
        return
    print(f"{cgroup}: {_pinned(policy, limit_bytes)} until it is unpinned")


@asking
def unpin(
    remote: Controller,
    tenant: TenantArgument,
    node: NodeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let the autopilot decide again."""
    try:
        remote.call("DELETE", "pins", cgroup=tenant, node=node)
        cgroup = tenant
    except UnknownToControllerError:
        # A pin outlives its cgroup, so only a name without a pin is compared with tenants.
        cgroup = remote.cgroup(tenant, node)
        remote.call("DELETE", "pins", cgroup=cgroup, node=node)
    if as_json:
        tables.print_json({"cgroup": cgroup, "node": node})
    else:
        print(f"{cgroup}: not pinned any more")


@asking
def revert(
    remote: Controller,
    change: Annotated[
        int,
        typer.Argument(metavar="CHANGE", min=1, max=2**53, help="Its id in the history."),
    ],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Roll back a change, for an hour."""
    held = ordered(remote, "reverts", {"change": change}, yes)
    one = parsed(Pin, held)
    _tell_stale(remote, one.cgroup, one.node)
    if as_json:
        tables.print_json(held)
        return
    until = "" if one.until_s is None else f" until {moment(one.until_s)}"
    print(f"{one.cgroup} on {one.node}: {_pinned(one.policy, one.limit_bytes)}{until}")
