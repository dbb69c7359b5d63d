# SPDX-License-Identifier: Apache-2.0
"""The configuration of a controller that is started without a named one."""

import os
from pathlib import Path

import pytest

from cachepilot.fleet.config import ConfigError, ControllerConfig
from cachepilot.fleet.default_config import configured


def test_a_named_file_comes_first(tmp_path: Path) -> None:
    named, usual = tmp_path / "named.toml", tmp_path / "usual.toml"
    named.write_text("interval_ms = 500\n")
    usual.write_text("interval_ms = 250\n")
    assert configured(named, {}, usual).interval_ms == 500
    assert configured(None, {}, usual).interval_ms == 250


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        configured(tmp_path / "missing.toml", {}, tmp_path / "usual.toml")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/one"}, "/home/one/.local/state/cachepilot"),
        ({"HOME": "/home/one", "XDG_STATE_HOME": "/state"}, "/state/cachepilot"),
    ],
)
def test_without_a_file_the_store_is_the_users_own(
    environment: dict[str, str], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = configured(None, environment, tmp_path / "usual.toml")
    assert found.store == Path(folder) / "controller.db"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert configured(None, environment, tmp_path / "usual.toml") == ControllerConfig()
