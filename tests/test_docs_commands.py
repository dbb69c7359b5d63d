# SPDX-License-Identifier: Apache-2.0
"""Every example of the documentation that needs only files, as typed."""

import gzip
import os
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from docs_examples import OFFLINE, blocks, offline

from cachepilot import _models

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "experiments" / "recorded_traces" / "build.cptrace.zst"
COMMANDS = [one.line.removeprefix("cachepilot ") for one in offline()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the files of the examples."""
    found = tmp_path_factory.mktemp("commands")
    (found / "experiments").symlink_to(ROOT / "experiments")
    (found / "b.cptrace.zst").symlink_to(TRACE)
    _models.trace_convert(str(TRACE), str(found / "a.u64.zst"))
    (found / "accesses.csv").write_text("time,page\n1,10\n2,11\n3,10\n", "utf-8")
    (found / "reads.csv").write_text("file,at,bytes\na,0,9000\nb,4096,1\na,0,1\n", "utf-8")
    msr = "128166372003061629,hm,0,Read,4096,8192,153\n" * 3
    with gzip.open(found / "hm_0.csv.gz", "wt") as file:
        file.write(msr)
    return found


def test_every_kind_of_command_has_an_example() -> None:
    assert {command.split()[0] for command in COMMANDS} == set(OFFLINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_works(folder: Path, command: str) -> None:
    words = [str(TRACE) if word == "TRACE" else word for word in shlex.split(command)]
    done = subprocess.run(
        [sys.executable, "-m", "cachepilot.cli", *words],
        cwd=folder,
        env=os.environ | {"COLUMNS": "200"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    for option, value in pairwise(words):
        if option == "--plot":
            assert (folder / value).stat().st_size > 1000


def test_the_examples_of_python_work() -> None:
    programs = blocks(ROOT / "docs" / "operating" / "traces_and_curves.md", "python")
    assert programs
    for program in programs:
        exec(program, {})
