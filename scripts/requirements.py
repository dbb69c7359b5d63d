# SPDX-License-Identifier: Apache-2.0
"""Print the dependencies of this distribution and of the extras named as arguments.

Prints one requirement per line, for `pip install`. pip itself installs extras only together with
the distribution, and that would compile the extension.
"""

import sys
import tomllib
from pathlib import Path


def requirements(extras: list[str]) -> list[str]:
    """Return the runtime dependencies, then those of `extras`, as pyproject.toml states them."""
    text = Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return wanted


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
