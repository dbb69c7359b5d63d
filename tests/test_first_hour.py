# SPDX-License-Identifier: Apache-2.0
"""The first hour as a stranger has it: the files and commands that the pages show.

Instead of a clone, a folder has a `.venv/bin/cachepilot` and the shipped configurations. Only the
ports and the agent's state folder differ from the page. The seconds of each step are printed and
written to build/first_hour.json.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from docs_examples import ROOT, blocks, commands, processes, shell_blocks, variables
from experiments.autopilot.children import Children, free_port

from cachepilot import agent

PAGE = ROOT / "docs" / "first_hour.md"
STATE = "/tmp/cachepilot-first-hour"
SHIPPED = "configs/first_hour"
DEADLINE_SECONDS = 120.0
CHECKS = ("check-config", "check-health")
TIMES = ROOT / "build" / "first_hour.json"
# This includes a loaded machine with two processors. Each step has its own deadline.
HOUR_SECONDS = 3600.0
seconds_of: dict[str, float] = {}
"""Seconds of each step; the longest time if a step runs more than once."""


@contextmanager
def step(line: str) -> Iterator[None]:
    """Measure the time of a command of the page, until it has had its effect."""
    begin = time.monotonic()
    yield
    seconds_of[line] = max(seconds_of.get(line, 0.0), time.monotonic() - begin)


@dataclass(frozen=True)
class Clone:
    """A folder with everything that the commands name, and its ports."""

    folder: Path
    http: int

    def run(self, script: str, seconds: float = DEADLINE_SECONDS) -> str:
        """Run a block of shell until it succeeds, and return its output. It may fail at first."""
        deadline = time.monotonic() + seconds
        while True:
            done = subprocess.run(
                ["bash", "-euc", script],
                cwd=self.folder,
                env=self.environment(),
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(0.5)

    def environment(self) -> dict[str, str]:
        """Return the environment after `. .venv/bin/activate`, and an agent beside the programs."""
        path = f"{self.folder / '.venv/bin'}:{os.environ['PATH']}"
        return os.environ | {"PATH": path, "CACHEPILOT_AGENT": str(agent.find(os.environ))}


def _write_programs(folder: Path) -> None:
    folder.mkdir(parents=True)
    programs = {
        "cachepilot": f'exec "{sys.executable}" -m cachepilot.cli "$@"',
        "cachepilot-agent": 'exec "$CACHEPILOT_AGENT" "$@"',
        "sudo": 'exec "$@"',
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


def _put_before(path: Path, *lines: str) -> None:
    path.write_text("\n".join([*lines, path.read_text("utf-8")]), "utf-8")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    _write_programs(tmp_path / ".venv" / "bin")
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    agents, http = free_port(), free_port()
    listen = (f'listen = "127.0.0.1:{agents}"', f'http = "127.0.0.1:{http}"')
    # The files of the page's third step, which a reader writes.
    *_, tenants, own, objectives = blocks(PAGE, "toml")
    with (tmp_path / "configs" / "agent.toml").open("a", encoding="utf-8") as shipped:
        shipped.write(tenants)
    (tmp_path / "controller.toml").write_text(own, "utf-8")
    (tmp_path / "objectives.toml").write_text(objectives, "utf-8")
    for name in ("controller.toml", f"{SHIPPED}/controller.toml"):
        _put_before(tmp_path / name, *listen)
    path = tmp_path / SHIPPED / "agent.toml"
    _put_before(path, f'controller = "http://127.0.0.1:{agents}"', 'metrics = ""')
    path.write_text(path.read_text("utf-8").replace(STATE, str(tmp_path / "state")), "utf-8")
    return Clone(tmp_path, http)


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    logs = tmp_path / "logs"
    logs.mkdir()
    with Children(logs) as found:
        yield found


def _start(clone: Clone, children: Children, line: str) -> None:
    """Start a program that runs until it is stopped, in a shell in the clone's folder."""
    words = [f"{name}={value}" for name, value in clone.environment().items()]
    name = f"{len(list((clone.folder / 'logs').iterdir()))}"
    enter = f"cd {shlex.quote(str(clone.folder))} && exec {line}"
    children.start(name, ["env", *words, "bash", "-euc", enter])


def _processes(page: str) -> list[str]:
    return [one.line for one in processes() if one.page == page]


def test_the_files_are_those_that_the_page_shows() -> None:
    names = ("controller.toml", "objectives.toml", "agent.toml")
    shown = blocks(PAGE, "toml")[: len(names)]
    for name, text in zip(names, shown, strict=True):
        shipped = (ROOT / SHIPPED / name).read_text("utf-8")
        assert tomllib.loads(text) == tomllib.loads(shipped), name


def test_an_autopilot_by_hand_needs_no_root(clone: Clone, children: Children) -> None:
    page = "docs/first_hour.md"
    told = f"export CACHEPILOT_CONTROLLER=http://127.0.0.1:{clone.http}\n"
    # The first command needs a controller; the second one needs an agent's data as well.
    proofs = (".venv/bin/cachepilot status", ".venv/bin/cachepilot explain /tenants/kv")
    started = [line for line in _processes(page) if SHIPPED in line]
    for line, proof in zip(started, proofs, strict=True):
        assert "sudo" not in line
        with step(line):
            _start(clone, children, line)
            answer = clone.run(told + proof)
    assert "/tenants/kv" in answer
    asked = [one for one in shell_blocks(ROOT / page) if "/tenants/kv" in one]
    assert asked
    for block in asked:
        lines = [one for one in commands(block) if " run --config" not in one]
        for line in lines:
            if not line.startswith("unset"):
                with step(line):
                    clone.run(told + line.replace(" --watch", ""))
    children.check()


def test_the_address_is_told_by_a_variable(clone: Clone, children: Children) -> None:
    export, unset = (one.line for one in variables("docs/first_hour.md"))
    _start(clone, children, _processes("docs/first_hour.md")[0])
    told = export.replace("PORT", str(clone.http))
    clone.run(f"{told}\n.venv/bin/cachepilot status")
    assert not clone.run(f"{told}\n{unset}\necho ${{CACHEPILOT_CONTROLLER-}}").strip()


@pytest.mark.parametrize("page", ["docs/first_hour.md", "docs/operating/install.md"])
def test_the_checked_commands_are_well_formed(clone: Clone, children: Children, page: str) -> None:
    """Follow the page's order: a controller that it starts runs before its health is checked."""
    lines = [one for one in _processes(page) if SHIPPED not in one]
    assert any(check in line for line in lines for check in CHECKS)
    for line in lines:
        if not any(check in line for check in CHECKS):
            _start(clone, children, line)
        elif "--config" in line:
            with step(line):
                assert clone.run(line)
        else:
            # The package installs it at /etc/cachepilot, where the command looks for it.
            assert clone.run(f"{line} --config configs/agent.toml")
    children.check()


def test_make_run_is_seen_to_work(tmp_path: Path) -> None:
    """Run what `make run` calls after the build, for less time."""
    with step("make run"):
        done = subprocess.run(
            [ROOT / "scripts" / "run", "--seconds", "20", "--out", tmp_path],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
    assert done.returncode == 0, done.stderr
    assert "lookups" in done.stdout


def test_all_steps_fit_in_an_hour(capsys: pytest.CaptureFixture[str]) -> None:
    """Add up the steps that ran before this test. If it runs alone, there is nothing to add."""
    if not seconds_of:
        pytest.skip("no step of the page ran before")
    TIMES.parent.mkdir(exist_ok=True)
    TIMES.write_text(json.dumps(seconds_of, indent=1) + "\n", "utf-8")
    with capsys.disabled():
        print("\nseconds of each step of the first hour:")
        for line, seconds in seconds_of.items():
            print(f"  {seconds:7.1f}  {line}")
    assert sum(seconds_of.values()) < HOUR_SECONDS
