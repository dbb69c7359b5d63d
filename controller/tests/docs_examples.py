# SPDX-License-Identifier: Apache-2.0
"""The examples that a page of the documentation shows for a shell."""

import re
from pathlib import Path


def shell_blocks(page: Path) -> list[str]:
    """What stands in each of its blocks of shell, in order."""
    return re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
