# SPDX-License-Identifier: Apache-2.0
"""systemd units and the Debian package, checked by the tools of systemd and dpkg."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
UNITS = sorted((ROOT / "configs" / "systemd").glob("*.service"))
EXPOSURE_MAX = {"cachepilot-agent": 4.0, "cachepilot-controller": 2.0}


def _run(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_well_formed_and_hardened(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    # The programs are not installed on the machine that runs the tests.
    copy.write_text(re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", unit.read_text("utf-8")))
    said = _run("systemd-analyze", "verify", "--man=no", copy)
    assert unit.name not in said, said
    said = _run("systemd-analyze", "security", "--offline=yes", copy)
    level = float(re.findall(r"exposure level for \S+: ([\d.]+)", said)[0])
    assert level <= EXPOSURE_MAX[unit.stem]


def test_a_unit_with_an_unknown_key_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "cachepilot-agent.service"
    text = UNITS[0].read_text("utf-8").replace("MemoryMin=", "MemoryMinimum=")
    copy.write_text(re.sub(r"(?m)^(Exec\w+=)\S+", r"\1/bin/true", text))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], check=False, capture_output=True, text=True
    )
    assert "MemoryMinimum" in done.stderr


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package, and return the folder into which it is unpacked."""
    said = _run("scripts/build_deb")
    built = re.findall(r"in '(.*\.deb)'", said)[0]
    folder = tmp_path_factory.mktemp("package")
    _run("dpkg-deb", "-x", ROOT / built, folder)
    _run("dpkg-deb", "-e", ROOT / built, folder / "DEBIAN")
    return folder


def test_the_package_holds_an_agent_that_runs(package: Path) -> None:
    program = package / "usr/bin/cachepilot-agent"
    assert _run(program, "--version").startswith("cachepilot-agent ")
    config = package / "etc/cachepilot/agent.toml"
    assert "127.0.0.1:7070" in _run(program, "check-config", "--config", config)
    objects = {path.name for path in (package / "usr/lib/cachepilot/bpf").iterdir()}
    assert objects == {path.name for path in (ROOT / "build" / "bpf").iterdir()}


def test_the_agent_links_to_the_c_library_alone(package: Path) -> None:
    said = _run("readelf", "--wide", "--dynamic", package / "usr/bin/cachepilot-agent")
    needed = {name.partition(".so")[0] for name in re.findall(r"\(NEEDED\).*\[(.*)\]", said)}
    assert "libc" in needed and needed <= {"libc", "libm", "libgcc_s", "ld-linux-x86-64"}


def test_the_package_states_what_it_needs(package: Path) -> None:
    control = (package / "DEBIAN/control").read_text("utf-8")
    depends = re.findall(r"(?m)^Depends: (.*)$", control)[0]
    names = {one.split()[0] for one in depends.split(", ")}
    # libelf and zlib are linked in: Debian renames their packages from release to release.
    assert "libc6" in names and names <= {"libc6", "libgcc-s1"}
    assert (package / "DEBIAN/conffiles").read_text("utf-8") == "/etc/cachepilot/agent.toml\n"
    unit = package / "lib/systemd/system/cachepilot-agent.service"
    for path in re.findall(r"(?m)^ExecStart=(\S+)", unit.read_text("utf-8")):
        assert (package / path.lstrip("/")).is_file()
