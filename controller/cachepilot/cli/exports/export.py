# SPDX-License-Identifier: Apache-2.0
"""Which forms a consolidation can be exported in."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from cachepilot.api.shapes.questions import Consolidation
from cachepilot.api.shapes.views import TenantView
from cachepilot.cli.exports.ansible import inventory
from cachepilot.cli.exports.kubernetes import manifests

Export = Callable[[Consolidation, Sequence[TenantView]], str]


class ExportForm(StrEnum):
    """Who is to carry the plan out."""

    KUBERNETES = "kubernetes"
    ANSIBLE = "ansible"
    JSON = "json"


def _plan(found: Consolidation, _: Sequence[TenantView]) -> str:
    """The drains with their moves, in the order in which they are to be made."""
    drains = [drain.model_dump(mode="json") for drain in found.drains]
    return json.dumps({"drains": drains}, indent=2) + "\n"


EXPORTS: Mapping[ExportForm, Export] = {
    ExportForm.KUBERNETES: manifests,
    ExportForm.ANSIBLE: inventory,
    ExportForm.JSON: _plan,
}
