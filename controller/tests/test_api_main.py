# SPDX-License-Identifier: Apache-2.0
"""The controller as a process where it cannot have an address."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from experiments.autopilot.children import free_port


@pytest.mark.parametrize("taken", ["http", "listen"])
def test_an_address_that_is_taken_is_bad_input(tmp_path: Path, taken: str) -> None:
    config = tmp_path / "controller.toml"
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = {"http": free_port(), "listen": free_port()} | {taken: other.getsockname()[1]}
        lines = [f'{key} = "127.0.0.1:{port}"' for key, port in ports.items()]
        config.write_text("\n".join([*lines, 'store = "c.db"']))
        done = subprocess.run(
            [sys.executable, "-m", "cachepilot.cli", "controller", "run", "--config", config],
            check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    said = done.stderr.splitlines()
    errors = [line for line in said if line.startswith("cachepilot: error: ")]
    assert errors == said[-1:] and "Traceback" not in done.stderr
    assert f"{taken}: 127.0.0.1:{ports[taken]}: cannot be listened on" in errors[0]
