# SPDX-License-Identifier: Apache-2.0
"""The forms in which a consolidation can be exported."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from cachepilot.api.shapes.questions import Consolidation
from cachepilot.api.shapes.views import TenantView
from cachepilot.cli.exports.ansible import inventory
from cachepilot.cli.exports.kubernetes import manifests

Export = Callable[[Consolidation, Sequence[TenantView]], str]


class ExportForm(StrEnum):
    """The program that is to execute the plan."""

    KUBERNETES = "kubernetes"
    ANSIBLE = "ansible"
    JSON = "json"


def _plan(found: Consolidation, _: Sequence[TenantView]) -> str:
    """Return the drains with their moves, in the order in which they are to be made."""
    drains = [drain.model_dump(mode="json") for drain in found.drains]
    return json.dumps({"drains": drains}, indent=2) + "\n"


EXPORTS: Mapping[ExportForm, Export] = {
    ExportForm.KUBERNETES: manifests,
    ExportForm.ANSIBLE: inventory,
    ExportForm.JSON: _plan,
}
