# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation, and functions that select those that each test runs.

tests/test_docs_all_commands.py checks that some function selects every command of the pages.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("agent", "bpf", "controller", "experiments", "kernel", "models", "proto", "tests")
PROGRAM = r"(?:sudo )?(?:\.venv/bin/)?cachepilot(?:-agent)? "
ASKING = (
    *("status", "explain", "history", "plan", "slo", "pin", "unpin", "revert", "undo"),
    "consolidate",
)
OFFLINE = ("sim", "readahead", "mrc", "compare", "policies", "trace", "scorecard", "man")
NEW_POLICY = "docs/contributing/adding_a_policy.md"
PORT_FORWARD = "--controller https://localhost:7071"


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of `language` in a page, in order."""
    found = re.findall(r"```(\w+)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [text for kind, text in found if kind == language]


def shell_blocks(page: Path) -> list[str]:
    """Return the shell blocks of a page, in order."""
    return blocks(page, "sh")


def pages() -> list[Path]:
    """Return the README, all pages of docs/, and the README of every folder of the tree."""
    readmes = [path for folder in FOLDERS for path in (ROOT / folder).rglob("README.md")]
    own = [path for path in readmes if "node_modules" not in path.parts]
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(own)]


@dataclass(frozen=True)
class Example:
    """One command as a page shows it, without its comment. `page` is relative to the root."""

    page: str
    line: str

    def is_of(self, *names: str) -> bool:
        """Whether the example is in one of these pages."""
        return self.page in names


def commands(block: str) -> list[str]:
    """Return the commands of a shell block without comments. Continued lines are joined."""
    joined = re.sub(r"\\\n\s*", "", block)
    lines = [re.sub(r"(^|\s+)# .*", "", line).strip() for line in joined.splitlines()]
    return [line for line in lines if line]


def examples(of: Iterable[Path] | None = None) -> list[Example]:
    """Return all commands of these pages, or of all pages, in order."""
    return [
        Example(page.relative_to(ROOT).as_posix(), line)
        for page in (pages() if of is None else of)
        for block in shell_blocks(page)
        for line in commands(block)
    ]


def _matching(pattern: str) -> list[Example]:
    return [one for one in examples() if re.match(pattern, one.line)]


def asking() -> list[Example]:
    """Return commands that ask a running controller (tests/test_docs.py)."""
    found = _matching(rf"{PROGRAM}({'|'.join(ASKING)})\b")
    return [one for one in found if PORT_FORWARD not in one.line and not _moves(one)]


def _moves(one: Example) -> bool:
    """Whether a command needs tenants on several nodes."""
    return re.search(r"consolidate --(apply|rollout|stop)\b", one.line) is not None


def port_forwarded() -> list[Example]:
    """Return commands that ask a controller with certificates (tests/test_kubernetes.py)."""
    return [one for one in examples() if PORT_FORWARD in one.line]


def requests() -> list[Example]:
    """Return requests without the command line, which tests/test_docs.py runs by block."""
    return _matching(r"curl ")


def variables(page: str) -> list[Example]:
    """Return a page's environment variables of the command line (see IN_THE_ENVIRONMENT)."""
    found = _matching(r"(export|unset) CACHEPILOT_")
    return [one for one in found if one.is_of(page)]


IN_THE_ENVIRONMENT = {
    "docs/operating/access.md": "controller/tests/test_cli_access.py",
    "docs/first_hour.md": "tests/test_first_hour.py",
}


def offline() -> list[Example]:
    """Return commands that need only files (tests/test_docs_commands.py)."""
    found = _matching(rf"{PROGRAM}({'|'.join(OFFLINE)})\b")
    return [one for one in found if not one.is_of(NEW_POLICY)]


def of_the_new_policy() -> list[Example]:
    """Return commands about the policy that a page adds (tests/test_adding_a_policy.py)."""
    found = _matching(rf"{PROGRAM}({'|'.join(OFFLINE)})\b")
    return [one for one in found if one.is_of(NEW_POLICY)]


def processes() -> list[Example]:
    """Return commands that run until stopped, and checks of these (tests/test_first_hour.py)."""
    found = _matching(rf"{PROGRAM}((controller|agent) )?(run|check-config|check-health)\b")
    # An agent as root would steer the host that runs the tests.
    return [one for one in found if "agent run" not in one.line or "sudo" not in one.line]


def installing() -> list[Example]:
    """Return commands that install files. tests/test_installing_docs.py uses another root."""
    return _matching(r"sudo (install|systemd-sysusers) ")


def backups() -> list[Example]:
    """Return commands that copy the controller's store (tests/test_operating_docs.py)."""
    return _matching(r"(sudo )?sqlite3 ")


def recordings() -> list[Example]:
    """Return commands that record programs (tests/test_recorder.py)."""
    return _matching(r"\.venv/bin/python experiments/recorded_traces/record\.py ")


def of_ycsb() -> list[Example]:
    """Return commands that build and run the database client (tests/test_ycsb.py)."""
    return _matching(r"(ycsb=|\$ycsb )")


def experiments() -> list[Example]:
    """Return programs of experiments. tests/test_experiments_docs.py checks their options."""
    return _matching(r"experiments/\w+/(run|where|measure)\b")


def quick_experiments() -> list[Example]:
    """Return quick experiments that need no machine (tests/test_experiments_docs.py)."""
    machines = ("autopilot_cost", "conformance", "kernel_")
    others = "|".join((*machines, "models_vs_libcachesim"))
    quick = [one for one in experiments() if "--quick" in one.line]
    return [one for one in quick if not re.match(rf"experiments/({others})", one.line)]


def benchmarks() -> list[Example]:
    """Return benchmarks of the models at tiny sizes (tests/test_bench_models.py)."""
    return _matching(r"experiments/models_vs_libcachesim/run --quick$")


def of_policies_in_a_machine(page: str) -> list[Example]:
    """Return a page's commands for the patched kernel (tests/kernel/test_docs_commands.py)."""
    patterns = (rf"{PROGRAM}policy ", r"cat /sys/fs/cgroup", r"echo max ", r"mkdir /sys/fs/cgroup")
    more = (r"head -c ", r"sh -c ", r"clang-19 ")
    found = _matching("|".join((*patterns, *more)))
    return [one for one in found if one.is_of(page)]


def doctors() -> list[Example]:
    """Return commands that check a whole host (tests/kernel/test_docs_commands.py)."""
    return _matching(rf"{PROGRAM}doctor\b")


def cachestats() -> list[Example]:
    """Return commands that watch cgroups of a stock kernel (tests/kernel/test_cachestat.py)."""
    return _matching(rf"{PROGRAM}cachestat\b")


IN_A_MACHINE = (
    "docs/operating/traces_and_curves.md",
    "docs/operating/kernel.md",
    "docs/reference/published_policies.md",
    "docs/reference/readahead_policies.md",
    NEW_POLICY,
)


def machines() -> list[Example]:
    """Return virtual machines that end by themselves (tests/kernel/test_docs_commands.py)."""
    return _matching(r"cachepilot vm run ")
