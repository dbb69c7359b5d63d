# SPDX-License-Identifier: Apache-2.0
"""Compiles the no-op policy to BPF, as the build does with the policies under bpf/policies."""

import shutil
import subprocess
from pathlib import Path

from experiments.shared.rows import ROOT

SOURCE = Path(__file__).resolve().parent / "noop"
FOLDER = ROOT / "build" / "kernel-overhead" / "policies"
INCLUDE = ROOT / "bpf" / "include"


class CompileError(Exception):
    """The policy could not be compiled. The message is the compiler's."""


def build() -> Path:
    """Return the folder of compiled policies with the no-op policy in it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SOURCE / "policy.toml", FOLDER / "noop.toml")
    done = subprocess.run(
        [
            *("clang-19", f"@{INCLUDE / 'clang.flags'}", "-I", str(INCLUDE), "-I", str(SOURCE)),
            *("-c", "-o", str(FOLDER / "noop.bpf.o"), str(SOURCE / "policy.bpf.c")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CompileError(done.stderr.strip())
    return FOLDER
