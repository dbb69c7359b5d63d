# SPDX-License-Identifier: Apache-2.0
"""Follow docs/contributing/adding_a_policy.md: a policy takes nothing but its folder."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from docs_examples import of_the_new_policy

ROOT = Path(__file__).parent.parent
DOCUMENT = (ROOT / "docs" / "contributing" / "adding_a_policy.md").read_text()
FILE = re.compile(r"^`((?:bpf|tests)/[\w./]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = "slru"
BUILD = "cargo build --locked --profile test -p cachepilot-models --lib --features python"

AGREES = """
import json, sys
from pathlib import Path
import numpy as np
from cachepilot import _models

names = {}
exec(Path(sys.argv[1]).read_text(), names)
keys = np.load(sys.argv[2])
for size in (1, 2, 7, 60, 333):
    for tunables in ({}, {"promote_accesses": 3}, {"protected_pct": 25}):
        for batch in (1, 32):
            hits = _models.simulate_hits(keys, sys.argv[3], size, batch=batch, tunables=tunables)
            reference = names["Reference"](size, min(batch, max(1, size // 16)), **tunables)
            expected = [reference.access(int(key)) for key in keys]
            assert hits.tolist() == expected, (size, tunables, batch)
"""


def document_files() -> dict[str, str]:
    """Return the files that the document shows completely, by path."""
    return {match[1]: match[2] for match in FILE.finditer(DOCUMENT)}


def write_folder(policies: Path) -> Path:
    """Write the document's policy as a folder in `policies`, and return it."""
    for path, text in document_files().items():
        if path.startswith(f"bpf/policies/{NAME}/"):
            target = policies / NAME / Path(path).name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return policies / NAME


def build(policies: Path) -> "subprocess.CompletedProcess[str]":
    """Compile the extension with the folders of `policies`.

    The profile of `cargo test` and the feature `python` reuse the dependencies that are built
    already. Neither the installed extension nor the output of `cargo test` changes.
    """
    settings = {
        "CACHEPILOT_POLICIES": str(policies),
        "CACHEPILOT_REQUIRE_BPF": "1",
        "PYO3_PYTHON": sys.executable,
    }
    return subprocess.run(
        [*BUILD.split(), "--message-format", "json-render-diagnostics"],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@dataclass(frozen=True)
class Built:
    """A separate `cachepilot` package, and the folder with the files of its build script."""

    packages: Path
    out: Path

    def python(self, *arguments: object) -> str:
        """Run an interpreter that imports this `cachepilot`, and return what it prints."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=os.environ | {"PYTHONPATH": str(self.packages)},
            cwd=self.packages,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compile the shipped policies and that of the document."""
    root = tmp_path_factory.mktemp("house")
    shutil.copytree(ROOT / "bpf" / "policies", root / "policies")
    write_folder(root / "policies")
    done = build(root / "policies")
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    [library] = [
        Path(name)
        for message in messages
        if message["reason"] == "compiler-artifact"
        for name in message["filenames"]
        if name.endswith("libcachepilot_models.so")
    ]
    [out] = [
        Path(message["out_dir"])
        for message in messages
        if message["reason"] == "build-script-executed" and "models" in message["package_id"]
    ]
    package = root / "packages" / "cachepilot"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "controller" / "cachepilot", package, ignore=ignored)
    shutil.copy(library, package / "_models.abi3.so")
    return Built(package.parent, out)


def test_the_document_shows_every_file() -> None:
    folder = f"bpf/policies/{NAME}"
    assert set(document_files()) == {
        f"{folder}/policy.toml",
        f"{folder}/policy.bpf.c",
        f"{folder}/README.md",
        f"tests/reference/{NAME}.py",
    }
    assert not (ROOT / folder).exists(), "the document adds a policy that is not shipped"


def test_the_folder_is_enough_for_the_command_line(built: Built, tmp_path: Path) -> None:
    listed = json.loads(built.python("-m", "cachepilot.cli", "policies", "--json"))
    shipped = [path.name for path in (ROOT / "bpf" / "policies").iterdir() if path.is_dir()]
    assert [policy["name"] for policy in listed] == sorted([*shipped, NAME])
    trace = tmp_path / "a.u64"
    (np.random.default_rng(1).zipf(1.1, 30_000) % 5000).astype("<u8").tofile(trace)
    sim = [trace, "--policy", f"{NAME},fifo,opt", "--size", "0.1", "--json"]
    setting = f"--set={NAME}.protected_pct=50"
    rows = json.loads(built.python("-m", "cachepilot.cli", "sim", *sim, setting))
    ratio = {row["policy"]: row["miss_ratio"] for row in rows}
    assert ratio["opt"] < ratio[NAME] < ratio["fifo"]


def test_a_variant_is_the_policy_with_its_tunables_set(built: Built, tmp_path: Path) -> None:
    trace = tmp_path / "a.u64"
    (np.random.default_rng(1).zipf(1.1, 30_000) % 5000).astype("<u8").tofile(trace)
    narrow = f"{NAME}:narrow"

    def ratios(command: str, names: str, *more: str) -> dict[str, object]:
        words = [trace, "--policy", names, *more, "--json"]
        rows = json.loads(built.python("-m", "cachepilot.cli", command, *words))
        return {row["policy"]: row["miss_ratio"] for row in rows}

    size = ("--size", "0.1")
    named = ratios("sim", f"{NAME},{narrow}", *size)
    by_hand = ratios("sim", NAME, *size, f"--set={NAME}.protected_pct=25")
    assert named[narrow] == by_hand[NAME] != named[NAME]
    more = ratios("sim", narrow, *size, f"--set={narrow}.protected_pct=80")
    assert more[narrow] == named[NAME], "what is set by hand comes before the variant's"
    exact = ratios("mrc", f"{NAME},{narrow}", "--method", "exact")
    assert exact[narrow] != exact[NAME]
    assert narrow in built.python("-m", "cachepilot.cli", "policies", NAME)


@pytest.mark.parametrize("line", [one.line for one in of_the_new_policy()])
def test_the_commands_of_the_document_work(built: Built, tmp_path: Path, line: str) -> None:
    trace = tmp_path / "a.u64"
    (np.random.default_rng(1).zipf(1.1, 30_000) % 5000).astype("<u8").tofile(trace)
    words = [str(trace) if word == "TRACE" else word for word in shlex.split(line)]
    assert words[0] == ".venv/bin/cachepilot"
    assert built.python("-m", "cachepilot.cli", *words[1:])


def test_the_added_policy_agrees_with_its_reference(built: Built, tmp_path: Path) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text(document_files()[f"tests/reference/{NAME}.py"])
    keys = np.random.default_rng(2).zipf(1.05, 6000).astype(np.uint64) % np.uint64(900)
    np.save(tmp_path / "keys.npy", keys)
    built.python("-c", AGREES, reference, tmp_path / "keys.npy", NAME)


def test_the_added_policy_compiles_for_the_kernel(built: Built) -> None:
    code = (built.out / "bpf" / f"{NAME}.bpf.o").read_bytes()
    assert code[:4] == b"\x7fELF"
    machine = int.from_bytes(code[18:20], "little")
    assert machine == 247, "EM_BPF"
    for hook in ("init", "evict_folios", "folio_added", "folio_accessed", "folio_removed"):
        assert f"struct_ops/{NAME}_{hook}".encode() in code


def edited(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Return a function that edits one file of the folder."""

    def edit(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return edit


MISTAKES = {
    "state size": (
        edited("policy.toml", "folio_state_bytes = 1", "folio_state_bytes = 2"),
        "folio_state_bytes in policy.toml differs from the code",
    ),
    "tunable that nobody declared": (
        edited("policy.bpf.c", "TUNABLE(promote_accesses)", "TUNABLE(promote_after)"),
        "policy.bpf.c: tunable promote_after is in the code, not in the policy.toml",
    ),
    "tunable that nobody reads": (
        edited("policy.bpf.c", "TUNABLE(promote_accesses)", "1"),
        "policy.bpf.c: tunable promote_accesses of policy.toml is never read",
    ),
    "hook that nobody declared": (
        edited("policy.toml", ', "folio_removed"]', "]"),
        "policy.bpf.c: hook folio_removed is in the code, not in the policy.toml",
    ),
    "variant of a tunable that is none": (
        edited("policy.toml", "{ protected_pct = 25 }", "{ protect_pct = 25 }"),
        "policy.toml: variants.narrow: slru.protect_pct: no such tunable (known: protected_pct, ",
    ),
    "variant out of range": (
        edited("policy.toml", "{ protected_pct = 25 }", "{ protected_pct = 100 }"),
        "policy.toml: variants.narrow: slru.protected_pct: 100 is not in 1..=99",
    ),
    "variant that is none": (
        edited("policy.toml", "{ protected_pct = 25 }", "{ protected_pct = 80 }"),
        "policy.toml: variants.narrow: the same name or the same values as the defaults",
    ),
    "unknown key": (edited("policy.toml", "paper =", "papers ="), "policy.toml: "),
    "no note for operators": (
        lambda folder: (folder / "README.md").unlink(),
        "README.md is missing",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_the_build_with_a_line_that_names_it(mistake: str, tmp_path: Path) -> None:
    edit, words = MISTAKES[mistake]
    folder = write_folder(tmp_path)
    edit(folder)
    done = build(tmp_path)
    assert done.returncode != 0
    script = done.stderr.partition("--- stderr")[2].strip()
    assert script.count("\n") == 0
    assert script.startswith(f"error: {folder}")
    assert words in script
