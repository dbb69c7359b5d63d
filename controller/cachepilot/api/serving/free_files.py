# SPDX-License-Identifier: Apache-2.0
"""The free memory of each node as one file per node, for schedulers."""

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from cachepilot.api.shapes.views import NodeView

LOG = logging.getLogger(__name__)


class FreeFiles:
    """Files `NODE.json` in a folder, each replaced atomically, so that no reader sees a part."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._problem = ""

    def write(self, nodes: Iterable[NodeView]) -> None:
        """Write all files; a failure is logged once, not in every interval."""
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
    """Return the content of a node's file."""
    return {
        "node": node.name,
        "free_bytes": node.free_bytes,
        "sure_free_bytes": node.sure_free_bytes,
        "free_for_s": round(node.free_for_s),
        "confidence": round(node.free_confidence, 4),
        "stale": node.stale,
        "last_seen_s": round(node.last_seen_s, 3),
    }
