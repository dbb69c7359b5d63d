# SPDX-License-Identifier: Apache-2.0
"""The controller's configuration file: TOML, checked key by key."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from cachepilot.decide.config import DecideConfig
from cachepilot.errors import InputError
from cachepilot.fleet.access import TokenFiles
from cachepilot.hosts import is_this_host
from cachepilot.model.throughput import ModelKind
from cachepilot.node.deciding.config import NodeConfig
from cachepilot.plan import allocators
from cachepilot.plan.consolidation.packing.options import (
    HEADROOM_HOURS_MAX,
    LOOKAHEAD_HOURS,
    SPARE_NODES_MAX,
)
from cachepilot.plan.consolidation.packing.options import Options as Placement
from cachepilot.plan.problem.config import Config as PlannerConfig

Section = TypeVar("Section", PlannerConfig, DecideConfig)

TOP = (
    "listen", "http", "store", "objectives", "free_dir", "interval_ms", "lease_ms", "change_ttl_ms",
)  # fmt: skip
SECTIONS = ("tls", "access", "planner", "decide", "history", "consolidation")
ACCESS = ("viewer_tokens", "operator_tokens")
CONSOLIDATION = (
    *("spare_nodes", "headroom_hours", "lookahead_hours", "preparing_seconds"),
    *("labels", "cpus", "folder"),
)  # fmt: skip
PREPARING_SECONDS_MAX = 86_400
TLS = ("certificate", "key", "client_ca")
INTERVAL_MS = (10, 60_000)
LEASE_MS_MAX = 86_400_000
CHANGE_TTL_MS = (1000, 3_600_000)
CPUS = (0.001, 10_000.0)
KEEP_DAYS = (0.01, 3650.0)
STATE = "/var/lib/cachepilot/controller.db"


class ConfigError(InputError):
    """A configuration is refused; the message names the file, the key and what is allowed."""


@dataclass(frozen=True)
class Tls:
    """PEM files: the server's certificate and key, and the authority that signs for clients."""

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True)
class ControllerConfig(NodeConfig):
    """Settings of the controller: those that apply to each node, and its own."""

    listen: str = "127.0.0.1:7070"
    http: str = "127.0.0.1:7071"
    tls: Tls | None = None
    access: TokenFiles | None = None
    store: Path = Path(STATE)
    objectives: Path | None = None
    free_dir: Path | None = None
    keep_days: float = 14.0
    placement: Placement = field(default_factory=Placement)
    consolidation_folder: Path | None = None
    """A folder that has one folder of workload definitions per node; see `fleet.moving.folder`."""
    preparing_s: float = 0.0
    """How long a target node may take to read a tenant's page cache before the move; 0: not at
    all."""


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of `host:port`; raise ValueError for anything else."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(address)
    return host, int(port)


def is_loopback(address: str) -> bool:
    """Whether an address can only be reached from this host."""
    host, _ = split_address(address)
    return is_this_host(host)


class _Reader:
    """Reads keys of one table of the file; an unknown key of the table raises ConfigError."""

    def __init__(self, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        self._where, self._table = where, table
        unknown = sorted(table.keys() - set(known))
        if unknown:
            names = ", ".join(known)
            raise ConfigError(f"{where}: unknown key {unknown[0]!r} (allowed: {names})")

    def refuse(self, key: str, value: object, allowed: str) -> ConfigError:
        return ConfigError(f"{self._where}: {key}: {value!r} is not allowed (allowed: {allowed})")

    def text(self, key: str, otherwise: str | None = None) -> str | None:
        value = self._table.get(key, otherwise)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.refuse(key, value, "text that is not empty")
        return value

    def address(self, key: str, otherwise: str) -> str:
        value = self.text(key, otherwise) or otherwise
        try:
            split_address(value)
        except ValueError:
            raise self.refuse(key, value, "host:port, port 0 to 65535") from None
        return value

    def path(self, key: str, folder: Path) -> Path | None:
        value = self.text(key)
        return None if value is None else folder / value

    def file(self, key: str, folder: Path, allowed: str) -> Path | None:
        path = self.path(key, folder)
        if path is not None and not path.is_file():
            raise ConfigError(f"{self._where}: {key}: {path} is not a file (allowed: {allowed})")
        return path

    def folder(self, key: str, folder: Path, allowed: str) -> Path | None:
        path = self.path(key, folder)
        if path is not None and not path.is_dir():
            raise ConfigError(f"{self._where}: {key}: {path} is not a folder (allowed: {allowed})")
        return path

    def number(self, key: str, otherwise: float, low: float, high: float, whole: bool) -> float:
        value: float = self._table.get(key, otherwise)
        is_number = isinstance(value, int) or (isinstance(value, float) and not whole)
        if isinstance(value, bool) or not is_number or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            raise self.refuse(key, value, f"{kind}, {low:g} to {high:g}")
        return value


def _table(
    document: Mapping[str, Any], name: str, where: str, within: str = ""
) -> Mapping[str, Any]:
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: {name}: must be a table, written [{within}{name}]")
    return found


def _section(kind: type[Section], table: Mapping[str, Any], where: str) -> Section:
    """Read a table into a dataclass of settings, which checks the ranges of its own fields."""
    reader = _Reader(where, table, tuple(one.name for one in fields(kind)))
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in table.items():
        hint = hints[key]
        if hint is ModelKind:
            if value not in list(ModelKind):
                raise reader.refuse(key, value, ", ".join(ModelKind))
            values[key] = ModelKind(value)
        elif hint is str:
            values[key] = reader.text(key)
        else:
            values[key] = reader.number(key, 0, float("-inf"), float("inf"), hint is int)
    try:
        found = kind(**values)
    except InputError as error:
        raise ConfigError(f"{where}: {error}") from None
    return found


def _planner(table: Mapping[str, Any], where: str) -> tuple[PlannerConfig, float]:
    """Return the planner's settings, and `least_share`, from which floors are computed."""
    rest = {key: value for key, value in table.items() if key != "least_share"}
    known = (*(one.name for one in fields(PlannerConfig)), "least_share")
    share = _Reader(where, table, known).number(
        "least_share", ControllerConfig.least_share, 0.0, 1.0, whole=False
    )
    return _section(PlannerConfig, rest, where), share


def _tls(table: Mapping[str, Any], folder: Path, where: str) -> Tls | None:
    if not table:
        return None
    reader = _Reader(where, table, TLS)
    found = {}
    for key in TLS:
        path = reader.file(key, folder, "a file in PEM")
        if path is None:
            raise ConfigError(f"{where}: {key}: is missing (allowed: a file in PEM)")
        found[key] = path
    return Tls(**found)


def _access(table: Mapping[str, Any], folder: Path, where: str) -> TokenFiles | None:
    reader = _Reader(where, table, ACCESS)
    viewer, operator = (reader.file(key, folder, "a file of tokens") for key in ACCESS)
    return None if viewer is None and operator is None else TokenFiles(viewer, operator)


def _consolidation(
    table: Mapping[str, Any], folder: Path, where: str
) -> tuple[Placement, Path | None, float]:
    """Return where tenants may be placed, the folder of definitions, and the seconds to prepare."""
    reader = _Reader(where, table, CONSOLIDATION)
    labels = _table(table, "labels", where, "consolidation.")
    for node, names in labels.items():
        fine = isinstance(names, list) and all(isinstance(one, str) and one for one in names)
        if not fine:
            raise reader.refuse(f"labels: {node}", names, "an array of texts that are not empty")
    cpus = _table(table, "cpus", where, "consolidation.")
    counts = _Reader(f"{where}: cpus", cpus, tuple(cpus))
    placement = Placement(
        spare_nodes=int(reader.number("spare_nodes", 0, 0, SPARE_NODES_MAX, whole=True)),
        headroom_hours=reader.number(
            "headroom_hours", HEADROOM_HOURS_MAX, 0, HEADROOM_HOURS_MAX, whole=False
        ),
        lookahead_hours=reader.number(
            "lookahead_hours", LOOKAHEAD_HOURS, 0, HEADROOM_HOURS_MAX, whole=False
        ),
        labels={node: tuple(names) for node, names in labels.items()},
        cpus={node: counts.number(node, 0, *CPUS, whole=False) for node in cpus},
    )
    definitions = reader.folder("folder", folder, "one per node in it")
    preparing_s = reader.number("preparing_seconds", 0, 0, PREPARING_SECONDS_MAX, whole=False)
    return placement, definitions, preparing_s


def _addresses(top: _Reader, tls: Tls | None, access: TokenFiles | None) -> dict[str, str]:
    """Return `listen` and `http`; raise ConfigError for an unprotected address of the network."""
    found = {}
    for key, closed, sections in (
        ("listen", tls is None, "[tls]"),
        ("http", tls is None or access is None, "[tls] and [access]"),
    ):
        address = found[key] = top.address(key, getattr(ControllerConfig, key))
        if closed and not is_loopback(address):
            raise top.refuse(key, address, f"a loopback address, or any with {sections}")
    return found


def parse_config(text: str, name: str, folder: Path = Path()) -> ControllerConfig:
    """Parse the text of the file `name`; paths in it are relative to `folder`.

    Raises ConfigError naming the file, the key and the allowed range.
    """
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{name}: is not TOML: {error}") from None
    top = _Reader(name, document, (*TOP, *SECTIONS))
    tls = _tls(_table(document, "tls", name), folder, f"{name}: [tls]")
    access = _access(_table(document, "access", name), folder, f"{name}: [access]")
    planner, least_share = _planner(_table(document, "planner", name), f"{name}: [planner]")
    try:
        allocators.find(planner.allocator)
    except InputError as error:
        raise ConfigError(f"{name}: [planner]: {error}") from None
    history = _Reader(f"{name}: [history]", _table(document, "history", name), ("keep_days",))
    consolidation = _table(document, "consolidation", name)
    placement, definitions, preparing_s = _consolidation(
        consolidation, folder, f"{name}: [consolidation]"
    )
    return ControllerConfig(
        **_addresses(top, tls, access),
        tls=tls,
        access=access,
        store=top.path("store", folder) or Path(STATE),
        objectives=top.path("objectives", folder),
        free_dir=top.path("free_dir", folder),
        interval_ms=int(top.number("interval_ms", 1000, *INTERVAL_MS, whole=True)),
        lease_ms=int(top.number("lease_ms", 0, 0, LEASE_MS_MAX, whole=True)),
        change_ttl_ms=int(top.number("change_ttl_ms", 40_000, *CHANGE_TTL_MS, whole=True)),
        planner=planner,
        decide=_section(DecideConfig, _table(document, "decide", name), f"{name}: [decide]"),
        keep_days=history.number("keep_days", 14.0, *KEEP_DAYS, whole=False),
        least_share=least_share,
        placement=placement,
        consolidation_folder=definitions,
        preparing_s=preparing_s,
    )


def read_config(path: Path) -> ControllerConfig:
    """Read the file `path`; raise ConfigError naming the file, the key and the range."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return parse_config(text, str(path), path.parent)
