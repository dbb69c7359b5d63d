# SPDX-License-Identifier: Apache-2.0
"""The documentation as a reader uses it: the site builds, links resolve, commands work."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from autopilot_processes import KV, LOOP, Autopilot
from docs_examples import asking, requests, shell_blocks

from cachepilot import agent, cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
COMMAND = re.compile(r"^(?:sudo )?(?:\.venv/bin/)?(cachepilot(?:-agent)? [^#\n>|]+)", re.MULTILINE)
OBJECTIVES = """
[[tenant]]
cgroup = "/t/kv"
throughput_ops = 100

[[tenant]]
cgroup = "/web"
weight = 2

[[tenant]]
cgroup = "*"
"""
EXAMPLES = {
    "'/tenants/k*'": "'/t/k*'",
    "/tenants/kv": "/t/kv",
    "/tenants/search": "/t/loop",
    "/autopilot/lookups": "/t/kv",
    "/autopilot/search": "/t/loop",
    "/autopilot/mixed": "/t/loop",
    "'/db'": "/t/kv",
    "/db": "/t/kv",
    "/search=": "/t/loop=",
    "512MiB": "8MiB",
    " --watch": "",
}


def _commands(page: Path) -> list[str]:
    """Return a page's example commands of cachepilot, without comments and redirections."""
    return [found.strip() for block in shell_blocks(page) for found in COMMAND.findall(block)]


def test_the_site_builds_without_a_warning() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "build_docs"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    site = ROOT / "build" / "site"
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", *ROOT.glob("bpf/policies/*/README.md")]
    shown = [page for page in pages if page.parent.name != "site"]
    assert not [page for page in shown if not _built(site, page).is_file()]


def _built(site: Path, page: Path) -> Path:
    """Return the page of the built site for a page of the tree."""
    return site / page.relative_to(ROOT).with_suffix(".html")


AGENTS = ("agent", "policy", "record", "doctor", "cachestat")


def _usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the help of the subcommand that `words` begin with."""
    program, *rest = words
    if program == "cachepilot-agent" or rest[0] in AGENTS:
        rest = rest[1:] if rest[0] == "agent" else rest
        names = rest[: 2 if rest[0] == "policy" else 1]
        command = [str(agent.find(os.environ)), *names, "--help"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for count in (2, 1):
        if cli.run([*rest[:count], "--help"]) == 0:
            return capsys.readouterr().out
        capsys.readouterr()
    raise AssertionError(f"no such command: {shlex.join(words)}")


@pytest.mark.parametrize(
    ("page", "command"),
    [(page.name, command) for page in PAGES for command in _commands(page)],
    ids=lambda value: value[:60],
)
def test_commands_and_their_options_exist(
    page: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)
    usage = _usage(words, capsys)
    end = words.index("--") if "--" in words else len(words)
    for option in [word.split("=")[0] for word in words[:end] if word.startswith("--")]:
        assert option in usage, f"{page}: {option}"


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Autopilot]:
    """Start a set-up on which the examples are tried."""
    found = Autopilot(tmp_path_factory.mktemp("docs"), OBJECTIVES, KV + LOOP)
    try:
        found.start("controller")
        found.until(lambda: found.get("/nodes") is not None)
        found.start("agent")
        found.pass_intervals(30)
        yield found
    finally:
        for name in list(found.running):
            found.kill(name)
        found.http.close()


def _examples() -> list[str]:
    """Return the examples in the order of their pages, except that reverts come first.

    Pins of other examples would leave no change in force that could be reverted.
    """
    found = [COMMAND.findall(one.line)[0].strip() for one in asking()]
    return sorted(found, key=lambda command: command.split()[1] != "revert")


def _in_force(pilot: Autopilot, folder: Path) -> int:
    """Return a change that can be reverted. Prefer a confirmed one: a live one may end."""

    def found() -> list[int]:
        rows = json.loads(_run(pilot, "history --json", folder))
        known = [row for row in rows if row["in_force"]]
        return [row["id"] for row in sorted(known, key=lambda row: row["state"] == "live")]

    pilot.until(lambda: bool(found()))
    return found()[0]


@pytest.mark.parametrize("command", _examples())
def test_the_examples_work(pilot: Autopilot, command: str, tmp_path: Path) -> None:
    for name, tenant in EXAMPLES.items():
        command = command.replace(name, tenant)
    if "slo apply" in command:
        (tmp_path / "slos.yaml").write_text(_run(pilot, "slo get --openslo", tmp_path), "utf-8")
        (tmp_path / "objectives.toml").write_text(_run(pilot, "slo get", tmp_path), "utf-8")
    if command.startswith("cachepilot revert"):
        command = f"cachepilot revert {_in_force(pilot, tmp_path)}"
    if command.startswith("cachepilot undo"):
        # Earlier examples may have run against another controller.
        _run(pilot, "slo set '/undone' --mode observe", tmp_path)
    _run(pilot, command.removeprefix("cachepilot "), tmp_path)


def test_the_requests_of_the_documentation_are_answered(pilot: Autopilot) -> None:
    pages = {ROOT / one.page for one in requests()}
    blocks = [block for page in pages for block in shell_blocks(page) if "curl" in block]
    assert blocks
    for block in blocks:
        script = block.replace("localhost:7071", pilot.address).replace("curl -s", "curl -sSf")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0 and "cgroup" in done.stdout, done.stdout + done.stderr


def _run(pilot: Autopilot, arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "cachepilot.cli", *shlex.split(arguments)],
        cwd=folder,
        env=os.environ | {"CACHEPILOT_CONTROLLER": f"http://{pilot.address}"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
