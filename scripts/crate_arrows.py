# SPDX-License-Identifier: Apache-2.0
"""Check the layers of the agent: which module of the crate may use which.

`ORDER` is the only place that states the order, from the top down: a module uses only modules
behind it. Names in comments do not count. Names that a macro generates are not seen.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ORDER = (
    "daemon",
    "session",
    "doctor",
    "record",
    "cachestat",
    "exporter",
    "node",
    "managers",
    "policies",
    "pages",
    "curves",
    "bpf",
    "config",
    "damaged",
    "glob",
    "cgroup",
    "wire",
    "latency",
    "error",
)
FORBIDDEN = frozenset({("bpf", "wire"), ("bpf", "config"), ("curves", "config")})
"""Uses that point down but are forbidden, in modules that also work without a controller."""
ROOTS = frozenset({"cli", "lib", "main"})
"""Modules above all others, which may use everything."""
_USE = re.compile(r"\bcrate::(?:(?P<one>[a-z_]+)\b|\{(?P<many>[^;]*)\};)")
_FIRST = re.compile(r"(?:^|,)\s*([a-z_]+)\b(?=\s*(?:::|,|$))")


def _used(line_of_code: str) -> Iterator[str]:
    for found in _USE.finditer(line_of_code):
        if found["one"]:
            yield found["one"]
        else:
            # In `a::{b, c}, d`, only `a` and `d` are modules of the crate.
            yield from _FIRST.findall(re.sub(r"\{[^{}]*\}", "", found["many"]))


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of code with their numbers. A `use` over several lines is one line."""
    begun, number_begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//", 1)[0]
        if begun or re.match(r"\s*(?:pub(?:\([a-z]+\))? )?use crate::\{", code):
            begun, number_begun = begun + " " + code.strip(), number_begun or number
            if ";" in code:
                yield number_begun, begun
                begun, number_begun = "", 0
        else:
            yield number, code


def offences(source: Path) -> list[str]:
    """Return the uses that point up, or at a module outside `ORDER`, one line each."""
    found = []
    for path in sorted(source.rglob("*.rs")):
        file = path.relative_to(source)
        module = file.parts[0].removesuffix(".rs")
        if module in ROOTS:
            continue
        where = f"{source.parent.name}/{source.name}/{file}"
        if module not in ORDER:
            found.append(f"{where}: the module {module} has no place in {Path(__file__).name}")
            continue
        below = ORDER[ORDER.index(module) :]
        for number, code in _statements(path.read_text("utf-8")):
            for used in _used(code):
                if used in ORDER and used not in below:
                    found.append(
                        f"{where}:{number}: {module} must not use {used}, which is above it"
                    )
                elif (module, used) in FORBIDDEN:
                    found.append(f"{where}:{number}: {module} must not use {used}")
    return found
