# SPDX-License-Identifier: Apache-2.0
"""Names for shell completion, requested from the controller; none if it does not answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from cachepilot.errors import InputError

TENANTS_MAX = 1000
"""A terminal cannot usefully show more names."""


def _asked(context: typer.Context, path: str) -> list[dict[str, Any]]:
    # Completion imports the client and the shapes only when it must complete a name.
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
    """Return cgroups of tenants that begin with `incomplete`."""
    return _beginning({str(one["cgroup"]) for one in _asked(context, "tenants")}, incomplete)


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Return nodes that begin with `incomplete`."""
    return _beginning({str(one["name"]) for one in _asked(context, "nodes")}, incomplete)


def policies(context: typer.Context, incomplete: str) -> list[str]:
    """Return policies of any node that begin with `incomplete`."""
    found = _asked(context, "nodes")
    return _beginning({str(name) for one in found for name in one["policies"]}, incomplete)
