# SPDX-License-Identifier: Apache-2.0
"""`cachepilot completion`: scripts with which shells complete commands, options and names."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from cachepilot.cli.lazy import VARIABLE


class Shell(StrEnum):
    """Shells for which there is a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the completion of commands, options, tenants and nodes for a shell.

    bash: `. <(cachepilot completion bash)` in ~/.bashrc.
    zsh: `. <(cachepilot completion zsh)` in ~/.zshrc, after compinit.
    fish: `cachepilot completion fish | source` in ~/.config/fish/config.fish.
    Names of tenants and nodes are asked of the controller; without one there are none.
    """
    script = get_completion_script(prog_name="cachepilot", complete_var=VARIABLE, shell=shell.value)
    print(script)
