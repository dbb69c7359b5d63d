# SPDX-License-Identifier: Apache-2.0
"""A consolidation as an Ansible inventory: the nodes to drain, their targets, and the moves."""

from collections.abc import Sequence
from typing import Any

import yaml

from cachepilot.api.shapes.questions import Consolidation, Move
from cachepilot.api.shapes.views import TenantView

HEADER = "# Predicted by cachepilot. Drain the hosts in the order of cachepilot_order.\n"


class _Dumper(yaml.SafeDumper):
    """A dumper that marks texts that Ansible would take for templates as unsafe.

    The names of nodes and cgroups may be such texts.
    """


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_template = any(one in text for one in ("{{", "{%", "{#"))
    tag = "!unsafe" if is_template else "tag:yaml.org,2002:str"
    return dumper.represent_scalar(tag, text)


_Dumper.add_representer(str, _text)


def _move(move: Move) -> dict[str, Any]:
    """Return a move as variables of the host, which is the node that the tenant leaves."""
    return move.model_dump(mode="json", exclude={"from_node"})


def inventory(found: Consolidation, _: Sequence[TenantView]) -> str:
    """Return the inventory: a group of hosts to drain with their moves, and one of targets."""
    drained = {
        drain.node: {
            "cachepilot_order": order,
            "cachepilot_freed_bytes": drain.freed_bytes,
            "cachepilot_moves": [_move(move) for move in drain.moves],
        }
        for order, drain in enumerate(found.drains, 1)
    }
    targets: dict[str, dict[str, Any]] = {}
    for move in (move for drain in found.drains for move in drain.moves):
        host = targets.setdefault(move.to_node, {"cachepilot_arrivals": []})
        host["cachepilot_arrivals"].append(move.cgroup)
    groups = {
        "cachepilot_drained": {"hosts": drained},
        "cachepilot_targets": {"hosts": dict(sorted(targets.items()))},
    }
    return HEADER + yaml.dump({"all": {"children": groups}}, Dumper=_Dumper, sort_keys=False)
