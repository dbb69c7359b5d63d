# SPDX-License-Identifier: Apache-2.0
"""The configuration of a controller that is started without naming one."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cachepilot.fleet.config import ControllerConfig, read_config

FILE = Path("/etc/cachepilot/controller.toml")


def configured(
    path: Path | None, environment: Mapping[str, str] = os.environ, usual: Path = FILE
) -> ControllerConfig:
    """The configuration of the file `path`, of `usual` if there is one, or the defaults.

    By default only this host reaches the controller. Its store is then in /var/lib/cachepilot for
    root, and in the folder of the user's own state for anybody else (XDG Base Directory). Raises
    ConfigError for a file that is refused.
    """
    if path is not None or usual.exists():
        return read_config(path or usual)
    config = ControllerConfig()
    if os.geteuid() == 0:
        return config
    state = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "")) / ".local/state"
    return replace(config, store=Path(state) / "cachepilot" / config.store.name)
