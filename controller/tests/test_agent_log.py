# SPDX-License-Identifier: Apache-2.0
"""The agent's log has no colours if it does not go to a terminal."""

import os
import subprocess
import time
from pathlib import Path

import pytest
from autopilot_processes import KV, NODE
from experiments.autopilot.children import free_port

from cachepilot import agent
from cachepilot.errors import InputError

DEADLINE_S = 60.0


def test_a_log_in_a_file_has_no_colours(tmp_path: Path) -> None:
    try:
        program = agent.find(os.environ)
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")
    (tmp_path / "simulation.toml").write_text(f"budget_bytes = 16777216\n{NODE}{KV}")
    config = tmp_path / "agent.toml"
    # No controller listens there, which the agent logs.
    config.write_text(
        f'node = "n"\ncontroller = "http://127.0.0.1:{free_port()}"\nkind = "simulated"\n'
        f'state_dir = "{tmp_path / "state"}"\nmetrics = ""\n'
        '[simulated]\nfile = "simulation.toml"\n'
    )
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([program, "run", "--config", config], stdout=out, stderr=out)
        try:
            end = time.monotonic() + DEADLINE_S
            while "\n" not in log.read_text():
                assert process.poll() is None and time.monotonic() < end, log.read_text()
                time.sleep(0.02)
        finally:
            process.terminate()
            process.wait(DEADLINE_S)
    assert "WARN" in log.read_text() and "\x1b" not in log.read_text()
