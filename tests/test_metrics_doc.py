# SPDX-License-Identifier: Apache-2.0
"""docs/reference/metrics.md is what the generator makes of the code."""

import re
import subprocess
import sys
from pathlib import Path

from fake_service import FakeService
from fastapi.testclient import TestClient

from cachepilot.api.app import create_app

ROOT = Path(__file__).resolve().parent.parent


def test_the_list_of_metrics_is_up_to_date() -> None:
    command = [sys.executable, "scripts/metrics_doc.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_tenant_has_at_most_sixty_series() -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    total = int(text.split("at most **")[1].split(" series**")[0])
    assert 40 <= total <= 60


def test_all_metrics_of_the_controller_itself_are_listed() -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
    own = text.partition("## Agent: ")[0]
    with TestClient(create_app(FakeService()), "http://127.0.0.1") as client:
        shown = re.findall(r"(?m)^# TYPE (\S+) ", client.get("/metrics").text)
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total"} <= set(shown)
    created = [name for name in shown if name.endswith("_created")]
    assert not [name for name in shown if f"| `{name}` |" not in own and name not in created]
