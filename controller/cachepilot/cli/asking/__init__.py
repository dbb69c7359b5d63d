# SPDX-License-Identifier: Apache-2.0
"""The connection of commands to a controller."""

import sys

# httpx imports its own command line if it can, which takes half of its import time. Without this
# module httpx behaves as if rich and click were not installed; nothing else changes.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
