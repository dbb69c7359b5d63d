# SPDX-License-Identifier: Apache-2.0
"""What is free on each node, as a file per node that a scheduler can read."""

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from cachepilot.api.shapes.views import NodeView

LOG = logging.getLogger(__name__)


class FreeFiles:
    """Files `NODE.json` in a folder; each is replaced as a whole, so that none is read half."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._problem = ""

    def write(self, nodes: Iterable[NodeView]) -> None:
        """Writes all of them; what cannot be written is told once, not in every interval."""
        problem = ""
        for node in nodes:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._write(node)
            except OSError as error:
                problem = problem or str(error)
        if problem and problem != self._problem:
            LOG.error("free memory cannot be written: %s", problem)
        self._problem = problem

    def _write(self, node: NodeView) -> None:
        path = self._folder / f"{quote(node.name, safe='')}.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(line_of(node)) + "\n", "utf-8")
        partial.replace(path)


def line_of(node: NodeView) -> dict[str, str | int | float | bool]:
    """What is told of one node."""
    return {
        "node": node.name,
        "free_bytes": node.free_bytes,
        "sure_free_bytes": node.sure_free_bytes,
        "free_for_s": round(node.free_for_s),
        "confidence": round(node.free_confidence, 4),
        "stale": node.stale,
        "last_seen_s": round(node.last_seen_s, 3),
    }
