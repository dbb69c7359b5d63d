# SPDX-License-Identifier: Apache-2.0
"""The programs of experiments: their documented options exist, and their quick forms run."""

import shlex
import subprocess
from functools import cache

import pytest
from docs_examples import ROOT, experiments, quick_experiments


@cache
def usage(program: str) -> str:
    """Return the program's help."""
    done = subprocess.run(
        [ROOT / program, "--help"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", sorted({one.line for one in experiments()}))
def test_documented_options_exist(line: str) -> None:
    program, *words = shlex.split(line)
    for word in words:
        if word.startswith("--"):
            assert word in usage(program), line


@pytest.mark.parametrize("line", sorted({one.line for one in quick_experiments()}))
def test_the_quick_form_of_an_experiment_runs(line: str) -> None:
    committed = ["git", "status", "--porcelain", "--", "experiments"]
    before = subprocess.run(committed, cwd=ROOT, check=True, capture_output=True).stdout
    done = subprocess.run(
        shlex.split(line), cwd=ROOT, check=False, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    after = subprocess.run(committed, cwd=ROOT, check=True, capture_output=True).stdout
    assert after == before, "a quick run leaves committed results alone"
