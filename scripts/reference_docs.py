#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the reference of commands and of the HTTP API from the code.

`docs/reference/commands.md` has the --help text of every command. `docs/reference/api_schema.md`
has the requests and JSON shapes of the OpenAPI schema. Run by the virtual environment. With --check
nothing is written, and the exit status is 1 if a page is out of date.
"""

import argparse
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

from fastapi import FastAPI
from typer.core import TyperGroup
from typer.main import get_command

from cachepilot import agent, cli
from cachepilot.api.app import create_app
from cachepilot.api.service import Service
from cachepilot.node.shown.changes import Changes

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
COMMANDS, SCHEMA = REFERENCE / "commands.md", REFERENCE / "api_schema.md"
# Commands that the agent runs, each of which prints its own help.
OF_THE_AGENT = ("agent", "policy", "doctor", "record", "cachestat")
COLUMNS = "100"
OPENING = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Commands

Written by `scripts/reference_docs.py` from the commands; do not edit. Each section is what the
command prints with `--help`. Results go to standard output, messages to standard error.

| exit status | meaning |
|---|---|
| 0 | success, also when Ctrl-C ends `--watch` |
| 2 | bad input, or a controller that refuses or cannot be reached: one line on standard error |
| 130 | Ctrl-C |
"""

SCHEMA_OPENING = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Schema of the HTTP API

Written by `scripts/reference_docs.py` from the OpenAPI schema, which the controller serves at
`/openapi.json`; do not edit. [HTTP API](api.md) describes how to use it.
"""


def _help(words: list[str]) -> str:
    """Return the --help text of a command."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = cli.run([*words, "--help"])
    if status != 0:
        raise RuntimeError(f"{' '.join(words)} --help: status {status}")
    return _trimmed(printed.getvalue())


def _help_of_agent(words: list[str]) -> str:
    done = subprocess.run(
        [agent.find(os.environ), *words, "--help"], check=True, capture_output=True, text=True
    )
    return _trimmed(done.stdout)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _commands(group: TyperGroup, above: list[str]) -> Iterator[list[str]]:
    """Yield the words of every command below a group, in the order of its help."""
    for name in group.list_commands(None):  # type: ignore[arg-type]
        found = group.get_command(None, name)  # type: ignore[arg-type]
        words = [*above, name]
        if isinstance(found, TyperGroup):
            yield from _commands(found, words)
        elif words[0] not in OF_THE_AGENT:
            yield words


def _commands_of_agent(above: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and help of every agent command below these words, groups first."""
    listed = _help_of_agent(above).partition("Commands:\n")[2]
    for name in re.findall(r"(?m)^  ([a-z][\w-]*)", listed):
        if name != "help":
            words = [*above, name]
            yield " ".join(["cachepilot-agent", *words]), _help_of_agent(words)
            yield from _commands_of_agent(words)


def commands_page() -> str:
    """Return the whole page of commands."""
    root = get_command(cli.app)
    assert isinstance(root, TyperGroup)
    sections = [("cachepilot", _help([]))]
    sections += [(f"cachepilot {' '.join(words)}", _help(words)) for words in _commands(root, [])]
    sections += _commands_of_agent([])
    blocks = [f"## {title}\n\n```text\n{text}\n```\n" for title, text in sections]
    return "\n".join([OPENING, *blocks])


def application() -> FastAPI:
    """Return the controller's HTTP application, whose schema is documented."""
    service = create_autospec(Service, instance=True)
    service.changes = Changes()
    return create_app(service)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


def _type(schema: Mapping[str, Any]) -> str:
    """Return a schema in short form, with links to shapes."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    return _of_several(schema) or str(schema.get("type", "any"))


def _of_several(schema: Mapping[str, Any]) -> str:
    """Return an array or object by the type of its elements; empty for other schemas."""
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', schema.get('prefixItems', [{}])[0]))}"
    more = schema.get("additionalProperties")
    return f"object of {_type(more)}" if isinstance(more, dict) else ""


def _range(schema: Mapping[str, Any]) -> str:
    names = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    names |= {"maxLength": "length at most", "minLength": "length at least"}
    found = [f"{names[key]} {schema[key]:g}" for key in names if key in schema]
    if schema.get("default") not in (None, "", False):
        found.append(f"default `{schema['default']}`")
    return ", ".join(found)


def _row(name: str, schema: Mapping[str, Any], required: bool, text: str) -> str:
    kind = _type(schema) + ("" if required else ", optional")
    told = "; ".join(part for part in (_one_line(text).rstrip("."), _range(schema)) if part)
    return f"| `{name}` | {kind} | {told} |"


def _body(content: Mapping[str, Any]) -> str:
    (media, found), *_ = content.items()
    return f"{_type(found.get('schema', {}))} ({media})"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Return the section of a request: its purpose, parameters, body and answer."""
    lines = [f"### `{method.upper()} {path}`\n"]
    lines.append(_one_line(str(operation.get("description") or operation["summary"])) + "\n")
    rows = [
        _row(one["name"], one["schema"], bool(one.get("required")), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    if rows:
        lines += ["| parameter | type | meaning |", "|---|---|---|", *rows, ""]
    if "requestBody" in operation:
        lines.append(f"Body: {_body(operation['requestBody']['content'])}.\n")
    status, answer = next(iter(operation["responses"].items()))
    content = answer.get("content")
    lines.append(f"Answer: {status}{', ' + _body(content) if content else ''}.\n")
    return "\n".join(lines)


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    """Return the section of a shape: its meaning and its keys."""
    lines = [f"### {name}\n"]
    if "description" in schema:
        lines.append(_one_line(schema["description"]) + "\n")
    required = schema.get("required", ())
    rows = [
        _row(key, found, key in required, found.get("description", ""))
        for key, found in schema.get("properties", {}).items()
    ]
    if rows:
        lines += ["| key | type | meaning |", "|---|---|---|", *rows, ""]
    elif "enum" in schema:
        lines.append(f"One of {_type(schema)}.\n")
    return "\n".join(lines)


def schema_page(schema: Mapping[str, Any]) -> str:
    """Return the whole page of the API's schema."""
    operations = [
        _operation(path, method, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    shapes = [_shape(*one) for one in sorted(schema["components"]["schemas"].items())]
    parts = [SCHEMA_OPENING, "## Requests\n", *operations, "## Shapes\n", *shapes]
    return "\n".join(parts).rstrip("\n") + "\n"


def main() -> int:
    """Run the command line. Return the exit status."""
    parser = argparse.ArgumentParser(description="Writes the reference of commands and the API.")
    parser.add_argument("--check", action="store_true", help="compare without writing")
    check = parser.parse_args().check
    os.environ |= {"COLUMNS": COLUMNS, "TERMINAL_WIDTH": COLUMNS, "NO_COLOR": "1"}
    status = 0
    schema = schema_page(application().openapi())
    for path, text in ((COMMANDS, commands_page()), (SCHEMA, schema)):
        if not check:
            path.write_text(text, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != text:
            print(f"{path.relative_to(ROOT)} is out of date: run scripts/reference_docs.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
