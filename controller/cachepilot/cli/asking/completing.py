# SPDX-License-Identifier: Apache-2.0
"""Names that a shell completes, asked of the controller; none where it does not answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from cachepilot.errors import InputError

TENANTS_MAX = 1000
"""More names are of no help in a terminal."""


def _asked(context: typer.Context, path: str) -> list[dict[str, Any]]:
    # Completion needs neither client nor shapes until a name is to be completed.
    from cachepilot.cli.asking.client import DEFAULT_URL, Controller  # noqa: PLC0415
    from cachepilot.cli.asking.credentials import Credentials  # noqa: PLC0415

    stated: Mapping[str, Any] = context.params

    def file(name: str) -> Path | None:
        value = stated.get(name)
        return None if value is None else Path(value)

    shown = Credentials(*(file(name) for name in ("ca", "certificate", "key", "token_file")))
    try:
        found = Controller(stated.get("controller") or DEFAULT_URL, shown).call("GET", path)
    except (InputError, OSError):
        return []
    return found if isinstance(found, list) else []


def _beginning(names: set[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))[:TENANTS_MAX]


def tenants(context: typer.Context, incomplete: str) -> list[str]:
    """Cgroups of tenants that begin so."""
    return _beginning({str(one["cgroup"]) for one in _asked(context, "tenants")}, incomplete)


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Nodes that begin so."""
    return _beginning({str(one["name"]) for one in _asked(context, "nodes")}, incomplete)


def policies(context: typer.Context, incomplete: str) -> list[str]:
    """Policies of any node that begin so."""
    found = _asked(context, "nodes")
    return _beginning({str(name) for one in found for name in one["policies"]}, incomplete)
