# SPDX-License-Identifier: Apache-2.0
"""The health probe of a controller on its own host, without and with certificates."""

import socket
from pathlib import Path

import pytest
from certificates import Authority
from fake_service import FakeService
from served import served

from cachepilot import cli
from cachepilot.cli.host import health
from cachepilot.errors import InputError
from cachepilot.fleet.access import TokenFiles
from cachepilot.fleet.config import Tls
from cachepilot.fleet.tls import http_options

PLAIN = 'http = "127.0.0.1:{port}"\n'
ENCRYPTED = """
http = "{host}:{port}"
[tls]
certificate = "{own.certificate}"
key = "{own.key}"
client_ca = "{client_ca}"
[access]
operator_tokens = "{tokens}"
"""


def _file(folder: Path, text: str) -> Path:
    path = folder / "controller.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_controller_that_answers_is_alive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(FakeService()) as url:
        path = _file(tmp_path, PLAIN.format(port=url.rpartition(":")[2]))
        assert cli.run(["controller", "check-health", "--config", str(path)]) == 0
    assert '"status":"ok"' in capsys.readouterr().out


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_the_probe_presents_the_controllers_certificate_and_no_token(
    tmp_path: Path, host: str
) -> None:
    authority = Authority(tmp_path / "ours", "ours")
    own = authority.issue("controller")
    tokens = tmp_path / "tokens"
    tokens.write_text("o" * 40)
    tls = Tls(own.certificate, own.key, authority.certificate)
    with served(FakeService(), TokenFiles(operator=tokens).read(), **http_options(tls)) as url:
        values = {"host": host, "port": url.rpartition(":")[2], "own": own, "tokens": tokens}
        path = _file(tmp_path, ENCRYPTED.format(**values, client_ca=authority.certificate))
        assert '"status":"ok"' in health.check_health(path)
        foreign = Authority(tmp_path / "theirs", "theirs").issue("controller")
        values["own"] = foreign
        path = _file(tmp_path, ENCRYPTED.format(**values, client_ca=authority.certificate))
        with pytest.raises(InputError, match="/healthz: no answer: "):
            health.check_health(path)


def test_a_controller_that_hangs_or_is_missing_is_not_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        path = _file(tmp_path, PLAIN.format(port=silent.getsockname()[1]))
        with pytest.raises(InputError, match="no answer"):
            health.check_health(path)
        silent.listen()
        with pytest.raises(InputError, match="no answer: timed out"):
            health.check_health(path)
