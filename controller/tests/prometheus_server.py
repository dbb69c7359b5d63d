# SPDX-License-Identifier: Apache-2.0
"""Start Debian's Prometheus for tests."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs" / "prometheus"
UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"
DEADLINE_SECONDS = 30.0
CONFIG = """
global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}
rule_files: [{rules}]
{scrapes}
"""
SCRAPES = """
scrape_configs:
  - job_name: cachepilot
    static_configs: [{{targets: {targets}}}]
"""


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    assert found, f"{name} is missing: scripts/setup dev brings it"
    return found


def write_config(folder: Path, scrapes: str) -> Path:
    """Write a configuration with the rules and these scrape settings."""
    path = folder / "prometheus.yml"
    path.write_text(CONFIG.format(rules=CONFIGS / "rules.yml", scrapes=scrapes), "utf-8")
    return path


@contextmanager
def prometheus(folder: Path, *targets: str, scrapes: str = "") -> Iterator[str]:
    """Run a Prometheus with the rules loaded, and yield its URL.

    It scrapes `targets`, or as `scrapes` says.
    """
    path = write_config(folder, scrapes or SCRAPES.format(targets=json.dumps(targets)))
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'data'}",
                "--web.listen-address=127.0.0.1:0",
            ],
            stderr=file,
        )
    try:
        found = until(lambda: re.search(r"Listening on\" address=(\S+)", log.read_text("utf-8")))
        yield f"http://{found[1]}/api/v1"
    finally:
        process.terminate()
        process.wait(DEADLINE_SECONDS)


def until(ask: Callable[[], Any]) -> Any:
    """Return the first answer that is not empty. Raises AssertionError after a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError("the deadline has passed")
