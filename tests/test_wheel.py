# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into a fresh virtual environment, away from the source tree.

Its dependencies come from the environment that runs the tests, so that no network is needed. A
`.pth` file adds their folder. The `.pth` files in that folder, such as the one of the source tree,
are not read.
"""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _run(*command: object, cwd: Path, **more: str) -> str:
    others = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=others | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from what `make build` has compiled, in an environment like its own."""
    folder = tmp_path_factory.mktemp("wheel")
    maturin = Path(sys.executable).with_name("maturin")
    options = ("--interpreter", sys.executable, "--target-dir", "target/extension")
    command = (maturin, "build", "--release", "--locked", *options, "--out", folder)
    _run(*command, cwd=ROOT, VIRTUAL_ENV=str(ROOT / ".venv"))
    (built,) = folder.glob("cachepilot-*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel: Path) -> Path:
    """Install the wheel into a new environment, and return its folder of programs."""
    folder = wheel.parent / "environment"
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    arguments = ("--no-deps", "--no-index", "--disable-pip-version-check", "--quiet", wheel)
    _run(programs / "python", "-m", "pip", "install", *arguments, cwd=folder)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return programs


def test_the_extension_is_the_installed_one(fresh: Path, tmp_path: Path) -> None:
    program = "import cachepilot, cachepilot._models as m; print(cachepilot.__file__, m.__file__)"
    for path in _run(fresh / "python", "-c", program, cwd=tmp_path).split():
        assert Path(path).is_relative_to(fresh.parent)


def test_curves_are_made_where_no_source_tree_is(fresh: Path, tmp_path: Path) -> None:
    (tmp_path / "loop.u64").write_bytes(b"".join(i.to_bytes(8, "little") for i in range(64)) * 8)
    command = ("mrc", "loop.u64", "--policy", "lru", "--method", "exact", "--json")
    said = json.loads(_run(fresh / "cachepilot", *command, cwd=tmp_path))
    (curve,) = said
    ratios = dict(zip(curve["sizes_pages"], curve["miss_ratio"], strict=True))
    assert ratios[63] == 1.0
    assert ratios[64] == 1 / 8


def test_the_controller_reads_its_configuration(fresh: Path, tmp_path: Path) -> None:
    config = tmp_path / "controller.toml"
    config.write_text((ROOT / "configs" / "controller.toml").read_text("utf-8"), "utf-8")
    command = ("controller", "check-config", "--config", config)
    assert _run(fresh / "cachepilot", *command, cwd=tmp_path).strip()


def _imported(source: str) -> set[str]:
    """Return the top-level names of all modules that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(str(node.module))
    return {name.partition(".")[0] for name in found}


def _plain(name: str) -> str:
    """Return the normal form of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _undeclared(imported: set[str], declared: set[str]) -> set[str]:
    """Return the imported modules whose distribution is not declared.

    A distribution that another one brings must be declared too.
    """
    known = packages_distributions()
    others = imported - set(sys.stdlib_module_names) - {"cachepilot"}
    return {one for one in others if not {_plain(d) for d in known.get(one, [])} & declared}


def test_imported_packages_are_declared(wheel: Path) -> None:
    """Compare imports with metadata: the environment above has the tests' packages as well."""
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    wanted = message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
    plain = {re.split(r"[^\w.-]", one)[0] for one in wanted if "extra ==" not in one}
    declared = {_plain(name) for name in plain}
    sources = [archive.read(name).decode() for name in names if name.endswith(".py")]
    imported = set().union(*map(_imported, sources))
    assert not _undeclared(imported, declared)
    # A missing declaration is noticed.
    assert _undeclared(imported, declared - {"pyyaml"}) == {"yaml"}


def test_licences_are_in_the_wheel(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for licence in ("LICENSE", *(f"LICENSES/{path.name}" for path in ROOT.glob("LICENSES/*"))):
        assert any(name.endswith(f"licenses/{licence}") for name in names), licence


def test_the_page_is_in_the_wheel(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    page = archive.read("cachepilot/dashboard/index.html").decode()
    loaded = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page)
    assert len(loaded) >= 3
    assert {f"cachepilot/dashboard/{name}" for name in loaded} <= set(archive.namelist())
