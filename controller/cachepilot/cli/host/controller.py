# SPDX-License-Identifier: Apache-2.0
"""`cachepilot controller`: runs the fleet's controller and checks its configuration."""

import logging
from pathlib import Path
from typing import Annotated

import typer

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"

app = typer.Typer(
    help="Run the controller of the fleet.", rich_markup_mode=None, no_args_is_help=False
)
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration, TOML. [default: /etc/cachepilot/controller.toml if it is there]",
    ),
]


@app.command()
def run(config: ConfigOption = None) -> None:
    """Run the controller until SIGTERM or Ctrl-C: agents dial it, this program asks it."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    # This imports gRPC, SciPy and the web server; no other command should wait for them.
    from cachepilot.api import main  # noqa: PLC0415

    main.run(config)


@app.command(name="check-config")
def check_config(config: ConfigOption = None) -> None:
    """Read a configuration and say whether it would do; starts nothing."""
    from cachepilot.api import main  # noqa: PLC0415

    main.check_config(config)
    print(f"{config or 'the configuration'}: is well-formed")


@app.command(name="check-health")
def check_health(
    config: ConfigOption = None,
    live: Annotated[
        bool, typer.Option("--live", help="Only whether it answers: for liveness probes.")
    ] = False,
) -> None:
    """Ask the controller of a configuration, on this host, whether all is well: for probes."""
    from cachepilot.cli.host import health  # noqa: PLC0415

    print(health.check_health(config, live))
