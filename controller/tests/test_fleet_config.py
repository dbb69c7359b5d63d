# SPDX-License-Identifier: Apache-2.0
"""The configuration file: defaults, refusals with file, key and range, and the example."""

from pathlib import Path

import pytest

from cachepilot.api.main import check_config
from cachepilot.decide.config import DecideConfig
from cachepilot.domain.objectives.as_json import objectives_from_json, objectives_to_json
from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.domain.objectives.objective import Counter, Indicator
from cachepilot.domain.snapshot import Node
from cachepilot.errors import InputError
from cachepilot.fleet.access import TokenFiles
from cachepilot.fleet.config import ConfigError, ControllerConfig, parse_config, read_config

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_holds_the_defaults() -> None:
    assert read_config(ROOT / "configs" / "controller.toml") == ControllerConfig()
    assert parse_config("", "c.toml") == ControllerConfig()


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("speed = 1", "unknown key 'speed'", "listen"),
        ("interval_ms = 5", "interval_ms: 5", "10 to 60000"),
        ("interval_ms = 10.5", "interval_ms: 10.5", "a whole number"),
        ("interval_ms = true", "interval_ms: True", "a whole number"),
        ('listen = "nowhere"', "listen: 'nowhere'", "host:port"),
        ('listen = "0.0.0.0:7070"', "listen: '0.0.0.0:7070'", "with [tls]"),
        ('http = "example.org:80"', "http: 'example.org:80'", "with [tls]"),
        ("[planner]\nmovement_share = 2.0", "[planner]: config: movement_share", "0 to 1"),
        ("[planner]\nmodel = 3", "[planner]: model: 3", "service"),
        ('[planner]\nallocator = "magic"', "[planner]:", "magic"),
        ("[planner]\nhaste = 1", "[planner]: unknown key 'haste'", "movement_share"),
        ("[decide]\nundo_times = 0", "[decide]: decide: undo_times: 0", "1.5 to 100"),
        ("change_ttl_ms = 2.5", "change_ttl_ms: 2.5", "a whole number"),
        ("[history]\nkeep_days = 0", "[history]: keep_days: 0", "0.01 to 3650"),
        ("[consolidation]\nspare_nodes = 2", "[consolidation]: spare_nodes: 2", "0 to 1"),
        ("[consolidation]\nheadroom_hours = 25", "headroom_hours: 25", "0 to 24"),
        (
            "[consolidation]\npreparing_seconds = -1",
            "[consolidation]: preparing_seconds: -1",
            "0 to 86400",
        ),
        ("[consolidation]\nhosts = 2", "[consolidation]: unknown key 'hosts'", "spare_nodes"),
        ("[consolidation]\nlabels = 1", "[consolidation]: labels: must be", "a table"),
        ("[consolidation.labels]\nn = 'a'", "[consolidation]: labels: n: 'a'", "an array"),
        ("[consolidation.cpus]\nn = 0", "[consolidation]: cpus: n: 0", "0.001 to 10000"),
        ('[consolidation]\nfolder = "none"', "[consolidation]: folder: none", "one per node"),
        ("decide = 1", "decide: must be a table", "[decide]"),
        ('[access]\nadmin_tokens = "a"', "[access]: unknown key 'admin_tokens'", "operator_tokens"),
        ('[access]\nviewer_tokens = "no.txt"', "[access]: viewer_tokens: no.txt is not", "tokens"),
        ('[tls]\ncertificate = "no.pem"', "[tls]: certificate:", "a file in PEM"),
        ("a =", "is not TOML", ""),
    ],
)
def test_a_refused_key_is_named_with_its_range(text: str, key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as found:
        parse_config(text, "c.toml")
    message = str(found.value)
    assert message.startswith("c.toml: ") and "\n" not in message
    assert key in message and allowed in message


def test_labels_are_of_all_globs_that_match() -> None:
    text = "[consolidation.labels]\n'n*' = ['ssd']\nn1 = ['zone=a', 'ssd']"
    placement = parse_config(text, "c.toml").placement
    assert (placement.labels_of("n1"), placement.labels_of("n2")) == (("ssd", "zone=a"), ("ssd",))
    assert placement.labels_of("m") == ()


def test_cpus_are_those_of_the_first_glob_that_matches() -> None:
    placement = parse_config("[consolidation.cpus]\nn1 = 4\n'n*' = 2.5", "c.toml").placement
    nodes = [Node(name, 1, cpus=8.0) for name in ("n1", "n2", "m")]
    assert [placement.cpus_of(one) for one in nodes] == [4, 2.5, 8]
    assert placement.cpus_of(Node("m", 1)) == float("inf")


def test_beyond_loopback_needs_tls_files(tmp_path: Path) -> None:
    for name in ("a.pem", "a.key", "ca.pem"):
        (tmp_path / name).write_text("")
    tls = '[tls]\ncertificate = "a.pem"\nkey = "a.key"\nclient_ca = "ca.pem"\n'
    found = parse_config('listen = "0.0.0.0:7070"\n' + tls, "c.toml", tmp_path)
    assert found.tls is not None and found.tls.client_ca == tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match=r"http: .*any with \[tls\] and \[access\]"):
        parse_config('http = "0.0.0.0:7071"\n' + tls, "c.toml", tmp_path)
    (tmp_path / "t").write_text("")
    text = 'http = "0.0.0.0:7071"\n' + tls + '[access]\noperator_tokens = "t"\n'
    assert parse_config(text, "c.toml", tmp_path).access == TokenFiles(operator=tmp_path / "t")
    with pytest.raises(ConfigError, match=r"http: .*any with \[tls\]"):
        parse_config(text.replace(tls, ""), "c.toml", tmp_path)


def test_check_reads_the_tokens_too(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("short\n")
    path = tmp_path / "c.toml"
    path.write_text('[access]\nviewer_tokens = "t"')
    with pytest.raises(InputError, match=r"t: line 1: is not a token \(allowed: 32 to 512"):
        check_config(path)


def test_check_reads_the_objectives_too(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('objectives = "o.toml"')
    with pytest.raises(InputError, match=r"o\.toml: cannot be read"):
        check_config(path)
    (tmp_path / "o.toml").write_text('[[tenant]]\ncgroup = "/a"\nweight = 0')
    with pytest.raises(InputError, match="weight"):
        check_config(path)


def test_settings_of_the_decider_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"decide: reserve_s: -1 .*allowed: 0 to 86400"):
        DecideConfig(reserve_s=-1)


def test_indicators_are_read_refused_and_stored() -> None:
    def read(value: str) -> Indicator:
        text = f'[[tenant]]\ncgroup = "/a"\nindicator = {value}'
        found = parse_objectives(text, "o.toml")
        assert objectives_from_json(objectives_to_json(found), "test") == found
        return found.tenants[0].indicator

    assert read('"accesses"') == Indicator(Counter.ACCESSES)
    table = '{prometheus = "http://h/metrics", metric = "n{a=\\"b\\"}"}'
    assert read(table) == Indicator(Counter.PROMETHEUS, "http://h/metrics", 'n{a="b"}')
    for bad in ('"prometheus"', '"speed"', "1", '{prometheus = "file:///x", metric = "n"}', "{}"):
        with pytest.raises(InputError, match=r"o\.toml: tenant 1: indicator: .*allowed: .*"):
            read(bad)
