# SPDX-License-Identifier: Apache-2.0
"""Prints the dependencies of this distribution and of the extras named as arguments.

One requirement a line, for `pip install`: pip itself installs extras only with the distribution,
and that would compile the extension.
"""

import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    """The runtime dependencies, then those of `extras`, as pyproject.toml states them."""
    text = Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return wanted


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
