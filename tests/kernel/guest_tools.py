# SPDX-License-Identifier: Apache-2.0
"""Functions shared by the guest programs."""

import json
import os
from pathlib import Path
from typing import Any


def tell(step: str, **what: Any) -> None:
    """Print a line of JSON for the test on the host."""
    print(json.dumps({"step": step, **what}), flush=True)


def drop_caches() -> None:
    """Drop the page cache of the guest."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
