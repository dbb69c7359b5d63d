# SPDX-License-Identifier: Apache-2.0
"""docs/operating: the scrape configuration for Prometheus, and the backup."""

import os
import re
import shlex
import sqlite3
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_configs import ONE_TENANT
from certificates import Authority
from docs_examples import backups, blocks
from experiments.autopilot.children import Children, free_port
from fake_service import FakeService
from prometheus_server import program, prometheus, until, write_config
from served import served

from cachepilot import agent
from cachepilot.fleet.access import TokenFiles
from cachepilot.fleet.config import Tls
from cachepilot.fleet.tls import http_options
from cachepilot.store.store import Store

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "operating" / "monitoring.md"
FILES = "/etc/prometheus/cachepilot"
AGENT = """
node = "n"
kind = "simulated"
state_dir = "{folder}/agent"
{metrics}
"""


@dataclass(frozen=True)
class Scraped:
    """A controller beyond loopback and an agent, with the files that open the controller."""

    folder: Path
    controller: str
    agent_port: int

    def scrapes(self) -> str:
        """Return the page's configuration, with the test's host names and folder of files."""
        (text,) = blocks(PAGE, "yaml")
        for old, new in {
            FILES: str(self.folder),
            "controller:7071": self.controller,
            "node-1:9435": f"127.0.0.1:{self.agent_port}",
            "node-2:9435": f"localhost:{self.agent_port}",
        }.items():
            assert old in text
            text = text.replace(old, new)
        return text


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("scraped")
    authority = Authority(folder / "authority", "fleet")
    own, mine = authority.issue("controller"), authority.issue("prometheus")
    files = {"ca.pem": authority.certificate}
    files |= {"prometheus.pem": mine.certificate, "prometheus.key": mine.key}
    for name, path in files.items():
        (folder / name).symlink_to(path)
    (folder / "token").write_text("v" * 40 + "\n")
    port = free_port()
    (metrics,) = (one for one in blocks(PAGE, "toml") if "metrics_public" in one)
    metrics = metrics.replace("9435", str(port))
    (folder / "agent.toml").write_text(
        AGENT.format(folder=folder, metrics=metrics) + ONE_TENANT, "utf-8"
    )
    tls = http_options(Tls(own.certificate, own.key, authority.certificate))
    access = TokenFiles(viewer=folder / "token").read()
    with served(FakeService(), access, **tls) as url, Children(folder) as children:
        children.start("agent", [agent.find(os.environ), "run", "--config", folder / "agent.toml"])
        yield Scraped(folder, url.removeprefix("https://"), port)


def test_the_configuration_of_prometheus_is_well_formed(scraped: Scraped, tmp_path: Path) -> None:
    path = write_config(tmp_path, scraped.scrapes())
    done = subprocess.run(
        [program("promtool"), "check", "config", path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_scrapes_all_configured_targets(scraped: Scraped, tmp_path: Path) -> None:
    def ask(query: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{api}/query", params={"query": query}, timeout=10)
        found: list[dict[str, Any]] = answer.json()["data"]["result"] if answer.is_success else []
        return found

    with prometheus(tmp_path, scrapes=scraped.scrapes()) as api:
        up = until(lambda: [one for one in [ask("up == 1")] if len(one) == 3])
        jobs = sorted(one["metric"]["job"] for one in up[0])
        assert jobs == ["cachepilot-agents", "cachepilot-agents", "cachepilot-controller"]
        assert ask("cachepilot_build_info{job='cachepilot-controller'}")
        assert until(lambda: ask("cachepilot_agent_info{job='cachepilot-agents'}"))


def test_without_the_token_the_controller_is_not_scraped(scraped: Scraped) -> None:
    folder = scraped.folder
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "prometheus.pem", folder / "prometheus.key")
    url = f"https://{scraped.controller}/metrics"
    assert httpx.get(url, verify=context).status_code == 401


def _backups() -> list[str]:
    """Return the backup commands of the pages: those in blocks, and one in a sentence."""
    text = (DOCS / "concepts" / "failures.md").read_text("utf-8")
    return [one.line for one in backups()] + re.findall(r"`(sqlite3 [^`]+)`", text)


@pytest.mark.parametrize("line", _backups())
def test_the_backup_command_makes_a_valid_backup(line: str, tmp_path: Path) -> None:
    words = [word for word in shlex.split(line) if word != "sudo"]
    words[1] = Path(words[1]).name
    # The store stays open during the copy, as a controller keeps it open.
    store = Store(tmp_path / words[1])
    done = subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    found = []
    for name in (words[1], "copy.db"):
        with closing(sqlite3.connect(tmp_path / name)) as opened:
            assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            found.append(opened.execute(tables).fetchall())
    store.close()
    assert found[0] == found[1] != []


def test_the_pages_have_backup_commands() -> None:
    assert len(_backups()) == 2
