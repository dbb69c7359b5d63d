# SPDX-License-Identifier: Apache-2.0
"""How commands ask a controller."""

import sys

# httpx has a command line of its own, whose imports take half of its time. Where it cannot be
# imported httpx does without, as where rich and click are not installed; nothing else changes.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
