# SPDX-License-Identifier: Apache-2.0
"""The location of the node's agent, and of the policy folder that belongs to it."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from cachepilot.errors import InputError

NAME = "cachepilot-agent"
BINARY_VARIABLE = "CACHEPILOT_AGENT"
POLICIES_VARIABLE = "CACHEPILOT_BPF_DIR"
TREE = Path(__file__).resolve().parents[2]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def find(environment: Mapping[str, str], tree: Path = TREE) -> Path:
    """Return the agent that the environment names, else one on PATH, else the source tree's build.

    Raises InputError if there is none, or if the named file is not a program.
    """
    named = environment.get(BINARY_VARIABLE)
    if named:
        if not _is_program(Path(named)):
            raise InputError(f"{BINARY_VARIABLE}={named}: not a program")
        return Path(named)
    found = shutil.which(NAME, path=environment.get("PATH", os.defpath))
    if found:
        return Path(found)
    built = tree / "target" / "release" / NAME
    if not _is_program(built):
        raise InputError(f"{NAME} is not on PATH: run make build, or name it by {BINARY_VARIABLE}")
    return built


def environment_for(
    agent: Path, environment: Mapping[str, str], tree: Path = TREE
) -> dict[str, str]:
    """Return the agent's environment; an agent from the source tree uses the tree's policies."""
    policies = tree / "build" / "bpf"
    from_tree = agent.resolve().is_relative_to(tree) and policies.is_dir()
    default = {POLICIES_VARIABLE: str(policies)} if from_tree else {}
    return default | dict(environment)
