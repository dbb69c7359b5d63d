# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md is what the code says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_list_of_metrics_is_up_to_date() -> None:
    command = [sys.executable, "scripts/metrics_doc.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_tenant_has_at_most_sixty_series() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    total = int(text.split("at most **")[1].split(" series**")[0])
    assert 40 <= total <= 60
