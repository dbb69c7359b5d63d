# SPDX-License-Identifier: Apache-2.0
"""The check of the agent's layers reports each offence, and nothing else."""

from pathlib import Path

import crate_arrows
import pytest

ROOT = Path(__file__).resolve().parent.parent


def check(path: Path, **files: str) -> list[str]:
    """Return the offences of a crate with these files; `__` in a keyword stands for a slash."""
    source = path / "agent" / "src"
    for key, text in files.items():
        file = source / f"{key.replace('__', '/')}.rs"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return crate_arrows.offences(source)


def test_the_tree_is_in_order() -> None:
    assert crate_arrows.offences(ROOT / "agent" / "src") == []


def test_uses_that_point_down_are_allowed(tmp_path: Path) -> None:
    found = check(
        tmp_path,
        main="use crate::daemon::run;\n",
        daemon__mod="use crate::node::{Node, kernel};\nuse crate::{Error, cgroup, wire};\n",
        node__kernel__tenant="use super::limits;\nuse crate::bpf::sampler;\n",
        bpf__sampler="/// As [`crate::wire::Tenant`].\nuse crate::latency::LATENCY_BUCKETS;\n",
    )
    assert found == []


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("bpf__up", "use crate::policies::kind::Kind;", "bpf must not use policies"),
        ("bpf__wire", "use crate::wire;", "bpf must not use wire"),
        ("node__up", "fn f() { crate::daemon::run() }", "node must not use daemon"),
        ("curves__up", "use crate::{error, node::Node};", "curves must not use node"),
        (
            "wire",
            "use crate::{\n    error::{Error, node},\n    session,\n};",
            "wire must not use sess",
        ),
        ("attic", "use crate::error;", "the module attic has no place"),
    ],
)
def test_uses_that_point_up_are_offences(tmp_path: Path, file: str, text: str, told: str) -> None:
    (offence,) = check(tmp_path, **{file: f"{text}\n"})
    assert offence.startswith(f"agent/src/{file.replace('__', '/')}.rs") and told in offence
