# SPDX-License-Identifier: Apache-2.0
"""The generated pages of the reference are what the generator makes of the code."""

import subprocess
import sys

from docs_examples import ROOT
from reference_docs import application, commands_page, schema_page


def test_the_generated_reference_is_up_to_date() -> None:
    command = [sys.executable, "scripts/reference_docs.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_has_its_section() -> None:
    page = commands_page()
    for name in ("sim", "slo set", "controller run", "trace generate", "vm shell"):
        assert f"\n## cachepilot {name}\n" in page
    for name in ("run", "doctor", "cachestat", "pages", "pages read"):
        assert f"\n## cachepilot-agent {name}\n" in page


def test_every_request_and_every_shape_has_its_section() -> None:
    schema = application().openapi()
    page = schema_page(schema)
    for path, methods in schema["paths"].items():
        assert all(f"\n### `{method.upper()} {path}`\n" in page for method in methods)
    for name, shape in schema["components"]["schemas"].items():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert all(f"| `{key}` |" in section for key in shape.get("properties", ()))
