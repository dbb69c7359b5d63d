# SPDX-License-Identifier: Apache-2.0
"""The whole command line: help by task, imports, completion and manual pages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fake_service import FakeService
from served import served

from cachepilot import cli
from cachepilot.cli.commands import TASKS, Entry, entries
from cachepilot.cli.host import man

OWN = [one for one in entries() if not one.is_passed_on]
HEAVY = (
    *("numpy", "scipy", "matplotlib", "grpc", "fastapi", "uvicorn", "textual", "rich.progress"),
    *("httpx", "tomlkit", "cachepilot.domain.objectives.file"),
)


def completed(words: str, **more: str) -> list[str]:
    """Return the completions that a shell gets for the last of the words."""
    count = len(words.split()) - (0 if words.endswith(" ") else 1)
    asking = {
        "_CACHEPILOT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(count),
    }
    done = subprocess.run(
        [sys.executable, "-m", "cachepilot.cli"],
        env={**os.environ, **asking, **more}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split()


def test_help_lists_every_command_below_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["-h"]) == 0
    shown = capsys.readouterr().out
    for task, group in TASKS.items():
        section = shown.partition(f"\n{task}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == [one.name for one in group]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("entry", OWN, ids=lambda one: one.name)
def test_every_command_is_there_and_has_short_help(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([entry.name, "-h"]) == 0
    short = capsys.readouterr().out
    assert cli.run([entry.name, "--help"]) == 0
    assert short == capsys.readouterr().out
    assert short.startswith(f"Usage: cachepilot {entry.name}")


def test_status_imports_nothing_that_it_does_not_need() -> None:
    service = FakeService()
    with served(service) as url:
        code = (
            "import sys; from cachepilot import cli; "
            f"status = cli.run(['status', '--controller', {url!r}]); "
            f"print('#', status, *(name for name in {HEAVY!r} if name in sys.modules))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert done.stdout.splitlines()[-1] == "# 0"


def test_a_misspelt_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["statsu"]) == cli.EXIT_BAD_INPUT
    assert "Did you mean 'status'" in capsys.readouterr().err


def test_a_shell_completes_commands_options_and_names() -> None:
    assert completed("cachepilot st") == ["status"]
    assert "--interval" in completed("cachepilot status --int")
    assert completed("cachepilot slo ap") == ["apply"]
    with served(FakeService()) as url:
        where = {"CACHEPILOT_CONTROLLER": url}
        assert "/search" in completed("cachepilot explain /", **where)
        assert completed("cachepilot explain /se", **where) == ["/search"]
        assert completed("cachepilot explain --node al", **where) == ["alpha"]
        for command in ("history", "pin", "unpin", "slo set", "slo delete"):
            assert completed(f"cachepilot {command} /se", **where) == ["/search"], command
        for command in ("status", "top", "history", "plan"):
            assert completed(f"cachepilot {command} --node al", **where) == ["alpha"], command
        assert completed("cachepilot pin /db --policy s3", **where) == ["s3fifo"]


def test_without_a_controller_no_name_is_completed() -> None:
    where = {"CACHEPILOT_CONTROLLER": "http://127.0.0.1:9"}
    assert completed("cachepilot explain /s", **where) == []


def test_bash_completes_by_the_script_that_is_printed(tmp_path: Path) -> None:
    program = tmp_path / "cachepilot"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cachepilot.cli "$@"\n')
    program.chmod(0o755)
    script = (
        "source <(cachepilot completion bash); COMP_WORDS=(cachepilot cons); COMP_CWORD=1; "
        "function=$(complete -p cachepilot | sed 's/.*-F \\([^ ]*\\).*/\\1/'); "
        '"$function" cachepilot; echo "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["consolidate"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_the_variable_that_is_looked_at(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["completion", shell]) == 0
    assert "_CACHEPILOT_COMPLETE" in capsys.readouterr().out


def test_every_command_has_a_manual_page_without_a_fault(tmp_path: Path) -> None:
    assert cli.run(["man", str(tmp_path)]) == 0
    pages = sorted((tmp_path / "man1").iterdir())
    names = {page.name for page in pages}
    assert {f"cachepilot-{one.name}.1" for one in entries()} <= names
    assert {"cachepilot.1", "cachepilot-slo-apply.1"} <= names
    groff = shutil.which("groff")
    assert groff, "scripts/setup installs it"
    for page in pages:
        done = subprocess.run(
            [groff, "-man", "-Kutf8", "-Tutf8", "-ww", "-z", str(page)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert done.stderr == "", page.name


def test_manual_text_is_no_request_to_the_formatter() -> None:
    assert man.escaped(".TH\\x-y") == "\\&.TH\\(rsx\\-y"


def test_manual_pages_go_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert cli.run(["man", str(file)]) == cli.EXIT_BAD_INPUT
    assert f"{file}: is not a folder" in capsys.readouterr().err
