# SPDX-License-Identifier: Apache-2.0
"""The alert rules and the metrics, as Debian's Prometheus reads them."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
from fake_service import FakeService
from prometheus_server import CONFIGS, program, prometheus, until
from served import served


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("promtool"), *arguments]
    return subprocess.run(
        command, check=False, cwd=CONFIGS, capture_output=True, text=True, timeout=60
    )


def test_rules_are_well_formed() -> None:
    done = promtool("check", "rules", "rules.yml")
    assert done.returncode == 0 and "13 rules found" in done.stdout, done.stdout + done.stderr


def test_rules_do_what_they_say() -> None:
    done = promtool("test", "rules", "rules_test.yml", "rules_slow_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_test_of_rules_can_fail(tmp_path: Path) -> None:
    shutil.copy(CONFIGS / "rules_test.yml", tmp_path)
    rules = (CONFIGS / "rules.yml").read_text("utf-8").replace("14.4 * 0.02", "44 * 0.02")
    (tmp_path / "rules.yml").write_text(rules, "utf-8")
    done = promtool("test", "rules", str(tmp_path / "rules_test.yml"))
    assert done.returncode == 1 and "CachepilotSloBurnFast" in done.stdout + done.stderr


def test_prometheus_scrapes_a_controller(tmp_path: Path) -> None:
    def scraped() -> Any:
        query = {"query": "cachepilot_tenant_limit_bytes{cgroup='/db'}"}
        answer = httpx.get(f"{api}/query", params=query)
        return answer.json()["data"]["result"] if answer.status_code == 200 else None

    with served(FakeService()) as url, prometheus(tmp_path, url.split("//")[1]) as api:
        found = until(scraped)
        assert found[0]["metric"]["node"] == "alpha" and found[0]["value"][1] == str(512 << 20)
        groups = httpx.get(f"{api}/rules").json()["data"]["groups"]
        assert sum(len(group["rules"]) for group in groups) == 13
        metadata = httpx.get(f"{api}/targets/metadata").json()["data"]
        kinds = {one["metric"]: one["type"] for one in metadata}
        assert kinds["cachepilot_slo_windows_total"] == "counter"
