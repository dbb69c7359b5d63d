# SPDX-License-Identifier: Apache-2.0
"""The command line and a remote controller: real TLS, certificates and tokens."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from certificates import Authority, Issued
from docs_examples import ROOT, shell_blocks, variables
from fake_service import FakeService
from served import served

from cachepilot import cli
from cachepilot.cli.asking.client import URL_VARIABLE
from cachepilot.cli.asking.credentials import Credentials
from cachepilot.errors import InputError
from cachepilot.fleet.access import TokenFiles
from cachepilot.fleet.config import Tls
from cachepilot.fleet.tls import check_tls, http_options

VIEWER, OPERATOR = "v" * 40, "o" * 40
Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Fleet:
    """A served controller, with credentials that it accepts and others that it refuses."""

    url: str
    folder: Path
    authority: Authority
    mine: Issued
    stranger: Authority
    foreign: Issued

    def options(self, **other: Path | None) -> list[str]:
        """Return an operator's options, some replaced. An option that is None is left out."""
        right: dict[str, Path | None] = {
            "ca": self.authority.certificate,
            "certificate": self.mine.certificate,
            "key": self.mine.key,
            "token_file": self.folder / "operator",
        }
        pairs = [(name, path) for name, path in (right | other).items() if path is not None]
        return [part for name, path in pairs for part in (_option(name), str(path))]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    authority, stranger = Authority(folder / "ours", "ours"), Authority(folder / "theirs", "theirs")
    for name, token in (("viewer", VIEWER), ("operator", OPERATOR), ("unknown", "x" * 40)):
        (folder / name).write_text(f"{token}\n")
    own = authority.issue("controller")
    tls = Tls(own.certificate, own.key, authority.certificate)
    check_tls(tls)
    access = TokenFiles(folder / "viewer", folder / "operator").read()
    with served(FakeService(), access, **http_options(tls)) as url:
        mine, foreign = authority.issue("me"), stranger.issue("me")
        yield Fleet(url, folder, authority, mine, stranger, foreign)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs one command line without environment variables of cachepilot.

    It returns status, stdout and stderr.
    """
    for name in list(os.environ):
        if name.startswith("CACHEPILOT_"):
            monkeypatch.delenv(name)

    def run_at(*arguments: str) -> tuple[int, str, str]:
        status = cli.run(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run_at


def test_an_operator_is_answered_and_may_change(run: Run, fleet: Fleet) -> None:
    at = ["--controller", fleet.url, *fleet.options()]
    status, out, err = run("slo", "set", "/web", "--weight", "2", *at)
    assert (status, err) == (0, "") and out.endswith("stored\n")
    assert "/web" in run("slo", "get", *at)[1]


def test_variables_stand_for_options(
    run: Run, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, fleet.url.replace("127.0.0.1", "localhost"))
    options = fleet.options()
    for option, path in zip(options[::2], options[1::2], strict=True):
        monkeypatch.setenv(f"CACHEPILOT_{option[2:].replace('-', '_').upper()}", path)
    assert run("consolidate", "--json")[0] == 0


def test_a_viewer_may_look_and_not_change(run: Run, fleet: Fleet) -> None:
    at = ["--controller", fleet.url, *fleet.options(token_file=fleet.folder / "viewer")]
    assert run("explain", "/db", "--json", *at)[0] == 0
    status, out, err = run("pin", "/db", "--policy", "lfu", *at)
    assert (status, out) == (cli.EXIT_BAD_INPUT, "")
    assert err == "cachepilot: error: a viewer may only look: POST is for an operator's token\n"


def _refusal(run: Run, url: str, *options: str) -> str:
    status, out, err = run("consolidate", "--controller", url, *options)
    assert (status, out) == (cli.EXIT_BAD_INPUT, "")
    assert err.startswith("cachepilot: error: ") and err.count("\n") == 1
    return err


def test_a_refused_connection_gives_the_reason(run: Run, fleet: Fleet) -> None:
    foreign = fleet.foreign
    cases: list[tuple[dict[str, Path | None], str]] = [
        ({"token_file": None}, "a token is needed"),
        ({"token_file": fleet.folder / "unknown"}, "the token is not known"),
        ({"ca": fleet.stranger.certificate}, "shows a certificate that is not trusted (--ca): "),
        ({"ca": None}, "shows a certificate that is not trusted (--ca): "),
        ({"certificate": None, "key": None}, "a certificate that its client_ca signed"),
        (
            {"certificate": foreign.certificate, "key": foreign.key},
            "a certificate that its client_ca signed",
        ),
    ]
    for other, part in cases:
        assert part in _refusal(run, fleet.url, *fleet.options(**other)), other


def test_unusable_files_are_named(run: Run, fleet: Fleet) -> None:
    gone, bad = fleet.folder / "gone", fleet.folder / "bad"
    bad.write_text("no\nPEM\n")
    foreign = fleet.foreign
    cases: list[tuple[dict[str, Path | None], str]] = [
        ({"ca": gone}, f"--ca {gone}: cannot be read: No such file"),
        ({"ca": bad}, f"--ca {bad}: not a certificate (allowed: PEM)"),
        ({"key": None}, "--certificate and --key: one without the other"),
        ({"certificate": gone}, f"--certificate {gone}: cannot be read"),
        ({"key": foreign.key}, f"--key {foreign.key}: not a certificate and its key"),
        ({"token_file": gone}, f"--token-file {gone}: cannot be read"),
        ({"token_file": bad}, f"--token-file {bad}: not a token (allowed: one line)"),
    ]
    for other, part in cases:
        assert part in _refusal(run, fleet.url, *fleet.options(**other)), other


def test_both_ends_must_speak_tls(run: Run, fleet: Fleet) -> None:
    plain = fleet.url.replace("https:", "http:")
    assert "is it https://?" in _refusal(run, plain, *fleet.options())
    with served(FakeService()) as url:
        wrong = url.replace("http:", "https:")
        assert "is it http://?" in _refusal(run, wrong, *fleet.options())


def test_a_token_is_not_sent_in_the_clear(run: Run, fleet: Fleet) -> None:
    token = ("--token-file", str(fleet.folder / "operator"))
    refusal = _refusal(run, "http://192.0.2.1:7071", *token)
    assert "a token for all to read (allowed: https, or this machine)" in refusal
    with served(FakeService()) as url:
        assert run("consolidate", "--controller", url, *token)[0] == 0


def test_a_certificate_without_a_token_opens_nothing(fleet: Fleet) -> None:
    """An agent's certificate opens its session only."""
    mine = fleet.mine
    context = Credentials(fleet.authority.certificate, mine.certificate, mine.key).context()
    assert httpx.get(f"{fleet.url}/api/v1/nodes", verify=context).status_code == 401
    assert httpx.get(f"{fleet.url}/metrics", verify=context).status_code == 401
    assert httpx.get(f"{fleet.url}/healthz", verify=context).status_code == 200


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("certificate", "not a certificate and its key (allowed: PEM, the key without a password)"),
        ("key", "not a certificate and its key"),
        ("client_ca", "not a certificate (allowed: PEM)"),
    ],
)
def test_the_controller_names_files_that_will_not_do(fleet: Fleet, key: str, part: str) -> None:
    bad = fleet.folder / "not.pem"
    bad.write_text("no PEM\n")
    mine = fleet.mine
    files = {"certificate": mine.certificate, "key": mine.key, "client_ca": bad} | {key: bad}
    if key != "client_ca":
        files["client_ca"] = fleet.authority.certificate
    with pytest.raises(InputError) as found:
        check_tls(Tls(**files))
    assert str(found.value).startswith("[tls]: ") and part in str(found.value)
    assert str(bad) in str(found.value)


def test_the_environment_of_the_documentation_opens_it(fleet: Fleet, tmp_path: Path) -> None:
    """Run the block as typed; only the controller's name differs."""
    files = {"ca.pem": fleet.authority.certificate, "token": fleet.folder / "viewer"}
    files |= {"me.pem": fleet.mine.certificate, "me.key": fleet.mine.key}
    for name, path in files.items():
        (tmp_path / name).symlink_to(path)
    page = "docs/operating/access.md"
    exported = [one.line for one in variables(page)]
    (block,) = [one for one in shell_blocks(ROOT / page) if exported[0] in one]
    script = block.replace("https://pilot.example:7071", fleet.url)
    shim = f'cachepilot() {{ "{sys.executable}" -m cachepilot.cli "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-euc", shim + script], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0 and all(line in block for line in exported), done.stderr
    assert "/db" in done.stdout
