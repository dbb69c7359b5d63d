# SPDX-License-Identifier: Apache-2.0
"""The configuration of a controller that is started without naming a file."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cachepilot.fleet.config import ControllerConfig, read_config

FILE = Path("/etc/cachepilot/controller.toml")


def configured(
    path: Path | None, environment: Mapping[str, str] = os.environ, usual: Path = FILE
) -> ControllerConfig:
    """Return the configuration of the file `path`, else of `usual` if it exists, else the default.

    By default only this host can reach the controller. The store of the default configuration is in
    /var/lib/cachepilot for root, and in the user's state folder for anybody else (XDG Base
    Directory Specification). Raises ConfigError for a file that is refused.
    """
    if path is not None or usual.exists():
        return read_config(path or usual)
    config = ControllerConfig()
    if os.geteuid() == 0:
        return config
    state = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "")) / ".local/state"
    return replace(config, store=Path(state) / "cachepilot" / config.store.name)
