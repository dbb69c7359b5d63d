# SPDX-License-Identifier: Apache-2.0
"""Which agent the commands run, and with which policies."""

from pathlib import Path

import pytest

from cachepilot import agent
from cachepilot.errors import InputError


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_environment_comes_before_path_and_path_before_the_tree(tmp_path: Path) -> None:
    named = program(tmp_path / "named")
    on_path = program(tmp_path / "bin" / agent.NAME)
    built = program(tmp_path / "target" / "release" / agent.NAME)
    nowhere = str(tmp_path / "empty")
    environment = {"PATH": str(on_path.parent)}
    assert agent.find(environment | {agent.BINARY_VARIABLE: str(named)}, tmp_path) == named
    assert agent.find(environment, tmp_path) == on_path
    assert agent.find({"PATH": nowhere}, tmp_path) == built


def test_a_missing_program_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="make build"):
        agent.find({"PATH": str(tmp_path)}, tmp_path)
    plain = tmp_path / "plain"
    plain.write_text("")
    with pytest.raises(InputError, match=f"{agent.BINARY_VARIABLE}=.*plain: not a program"):
        agent.find({agent.BINARY_VARIABLE: str(plain)}, tmp_path)


def test_an_agent_of_the_tree_uses_the_policies_of_the_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    policies = tree / "build" / "bpf"
    policies.mkdir(parents=True)
    built = program(tree / "target" / "release" / agent.NAME)
    other = program(tmp_path / "bin" / agent.NAME)
    assert agent.environment_for(built, {"A": "1"}, tree) == {
        "A": "1",
        agent.POLICIES_VARIABLE: str(policies),
    }
    assert agent.environment_for(other, {"A": "1"}, tree) == {"A": "1"}
    chosen = {agent.POLICIES_VARIABLE: "/elsewhere"}
    assert agent.environment_for(built, chosen, tree) == chosen
