# SPDX-License-Identifier: Apache-2.0
"""In the guest: what the programs of several tests need."""

import json
import os
from pathlib import Path
from typing import Any


def tell(step: str, **what: Any) -> None:
    """A line for the test outside."""
    print(json.dumps({"step": step, **what}), flush=True)


def drop_caches() -> None:
    """Empties the page cache."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
