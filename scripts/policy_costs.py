#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what each policy costs in the kernel into its README, or check what is written.

The figures come from `cachepilot policy verify --json`. They are read from FILE, or else measured
in the virtual machine with the patched kernel.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLI = str(ROOT / ".venv" / "bin" / "cachepilot")
VERIFY = [CLI, "vm", "run", "--filesystem", "none", "--", CLI, "policy", "verify", "--json"]

TITLE = "## In the kernel"
BEGIN = "<!-- Written by scripts/policy_costs.py. -->"
END = "<!-- End of what scripts/policy_costs.py writes. -->"
SECTION = re.compile(rf"\n{TITLE}\n.*?{re.escape(END)}\n", re.DOTALL)
ROW = re.compile(r"^\| (\w+) \| ([\d,]+) \| ([\d,]+) \|$", re.MULTILINE)

TOLERANCE = 0.1
"""Share by which a figure may differ: releases of clang compile a little differently."""
TOLERANCE_COUNT = 8
"""Absolute difference that is allowed for small figures."""

Costs = dict[str, tuple[int, int]]
"""By hook: instructions that the verifier walked through, and bytes of machine code."""


def read_verdicts(text: str) -> dict[str, Costs]:
    """Return the costs of every policy. Exit if one was refused."""
    verdicts = json.loads(text)
    refused = [verdict["policy"] for verdict in verdicts if verdict["refused"]]
    if refused:
        sys.exit(f"policy_costs: error: the kernel refuses {', '.join(refused)}")
    return {
        verdict["policy"]: {
            hook["hook"]: (hook["verified_instructions"], hook["jited_bytes"])
            for hook in verdict["hooks"]
        }
        for verdict in verdicts
    }


def section(costs: Costs) -> str:
    """Return the section of a README with these costs."""
    rows = [f"| {hook} | {verified:,} | {size:,} |" for hook, (verified, size) in costs.items()]
    table = ["| hook | verified instructions | jited bytes |", "|---|---:|---:|", *rows]
    return "\n".join(["", TITLE, "", BEGIN, *table, END, ""])


def written(readme: str) -> Costs:
    """Return the costs that a README states."""
    found = SECTION.search(readme)
    rows = ROW.findall(found[0]) if found else []
    number = {hook: (verified, size) for hook, verified, size in rows}
    return {
        hook: (int(verified.replace(",", "")), int(size.replace(",", "")))
        for hook, (verified, size) in number.items()
    }


def _differ(old: int, new: int) -> bool:
    return abs(old - new) > max(TOLERANCE * new, TOLERANCE_COUNT)


def offences(old: Costs, new: Costs) -> list[str]:
    """Return why written costs are out of date, one line each."""
    if list(old) != list(new):
        return [f"hooks are {', '.join(new)}; the README has {', '.join(old) or 'none'}"]
    return [
        f"{hook}: {what} are {now[i]:,}; the README has {old[hook][i]:,}"
        for hook, now in new.items()
        for i, what in enumerate(("verified instructions", "jited bytes"))
        if _differ(old[hook][i], now[i])
    ]


def update(readme: Path, costs: Costs) -> None:
    """Replace the section of a README, or append it."""
    text = readme.read_text("utf-8")
    without = SECTION.sub("", text)
    readme.write_text(without.rstrip("\n") + "\n" + section(costs), "utf-8")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if outdated")
    parser.add_argument("--policies", metavar="DIR", type=Path, default=ROOT / "bpf" / "policies")
    return parser.parse_args()


def main() -> int:
    """Run the command line. Return 0 if everything is up to date at the end."""
    options = arguments()
    if options.file:
        text = options.file.read_text("utf-8")
    else:
        text = subprocess.run(VERIFY, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for policy, costs in read_verdicts(text).items():
        readme = options.policies / policy / "README.md"
        outdated = offences(written(readme.read_text("utf-8")), costs)
        found += [f"{policy}: {offence}" for offence in outdated]
        if outdated and not options.check:
            update(readme, costs)
    for line in found:
        print(line if options.check else f"written: {line}")
    return 1 if found and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
