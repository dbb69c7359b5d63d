# SPDX-License-Identifier: Apache-2.0
"""The examples that a page of the documentation shows."""

import re
from pathlib import Path


def blocks(page: Path, language: str) -> list[str]:
    """What stands in each of its blocks of `language`, in order."""
    found = re.findall(r"```(\w+)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [text for kind, text in found if kind == language]


def shell_blocks(page: Path) -> list[str]:
    """What stands in each of its blocks of shell, in order."""
    return blocks(page, "sh")
