# SPDX-License-Identifier: Apache-2.0
"""The manifests of the policy folders, and the selection of policies by name.

The manifests are compiled into the extension from `bpf/policies/*/policy.toml`, and those of
readahead policies from `bpf/prefetch/*/policy.toml`. The names here are therefore exactly the
folders that the extension was built from.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from cachepilot import _models
from cachepilot.errors import InputError

OPT = "opt"
VARIANT_SEPARATOR = ":"


class Kind(StrEnum):
    """What a policy decides."""

    EVICTION = "eviction"
    READAHEAD = "readahead"


@dataclass(frozen=True)
class Tunable:
    """One number of a policy that can be set; an array if `length` is more than one."""

    name: str
    type: str
    length: int
    default: int
    min: int
    max: int
    unit: str
    description: str


@dataclass(frozen=True)
class Variant:
    """A set of other values for a policy's tunables; `name` is `POLICY:VARIANT`."""

    name: str
    tunables: dict[str, int]


@dataclass(frozen=True)
class Policy:
    """The manifest of one policy folder; `folio_state_bytes` is the policy's state per folio."""

    name: str
    title: str
    summary: str
    good_at: str
    bad_at: str
    paper: str
    production: bool
    autopilot: bool
    simulation_only: bool
    folio_state_bytes: int
    hooks: tuple[str, ...]
    needs: tuple[str, ...]
    tunables: tuple[Tunable, ...]
    variants: tuple[Variant, ...] = ()

    @property
    def evicts(self) -> bool:
        """Whether the policy chooses what is evicted, or leaves that to the kernel."""
        return "evict_folios" in self.hooks

    @property
    def kind(self) -> str:
        """Where the policy can run."""
        return "simulation" if self.simulation_only else "kernel"


def manifests_json(kind: Kind = Kind.EVICTION) -> list[dict[str, Any]]:
    """Return every manifest of a kind as plain JSON values, in the order of the extension."""
    is_readahead = kind is Kind.READAHEAD
    text = _models.readahead_policies_json() if is_readahead else _models.policies_json()
    manifests: list[dict[str, Any]] = json.loads(text)
    return manifests


def _tunable(raw: dict[str, Any]) -> Tunable:
    return Tunable(
        name=raw["name"],
        type=raw["type"],
        length=raw.get("length", 1),
        default=raw["default"],
        min=raw["min"],
        max=raw["max"],
        unit=raw.get("unit") or "",
        description=raw.get("description") or "",
    )


def _policy(raw: dict[str, Any]) -> Policy:
    return Policy(
        name=raw["name"],
        title=raw["title"],
        summary=raw["summary"],
        good_at=raw["good_at"],
        bad_at=raw["bad_at"],
        paper=raw["paper"],
        production=raw["production"],
        autopilot=raw["autopilot"],
        simulation_only=raw["simulation_only"],
        folio_state_bytes=raw["folio_state_bytes"],
        hooks=tuple(raw["hooks"]),
        needs=tuple(raw["needs"]),
        tunables=tuple(_tunable(tunable) for tunable in raw["tunables"]),
        variants=tuple(
            Variant(f"{raw['name']}{VARIANT_SEPARATOR}{one['name']}", dict(one["tunables"]))
            for one in raw.get("variants", ())
        ),
    )


@cache
def policies(kind: Kind = Kind.EVICTION) -> dict[str, Policy]:
    """Return every policy of a kind by name, in the order of the extension."""
    return {raw["name"]: _policy(raw) for raw in manifests_json(kind)}


def attachable() -> list[str]:
    """Return the names of the policies that the kernel can attach, in the extension's order."""
    return [one.name for one in policies().values() if not one.simulation_only]


def _with_variants(kind: Kind) -> dict[str, Policy]:
    """Return every policy of a kind by its name and by the names of its variants."""
    known = policies(kind)
    variants = {one.name: policy for policy in known.values() for one in policy.variants}
    return known | variants


def find(name: str, kind: Kind = Kind.EVICTION) -> Policy:
    """Return the policy of that name or variant name; raise InputError listing the known names."""
    known = _with_variants(kind)
    if name not in known:
        raise InputError(f"unknown {_noun(kind)} {name!r} (known: {', '.join(sorted(known))})")
    return known[name]


def _noun(kind: Kind) -> str:
    return "policy" if kind is Kind.EVICTION else "readahead policy"


def select(text: str, kind: Kind = Kind.EVICTION) -> list[str]:
    """Return names from a comma-separated list, each once; `all` means every policy folder.

    A variant is included only if it is given by its name, `POLICY:VARIANT`. The same applies to
    `opt`, Belady's OPT, an eviction policy that has no folder.
    """
    chosen: dict[str, None] = {}
    known = _with_variants(kind)
    beside = [OPT] if kind is Kind.EVICTION else []
    for part in (part.strip() for part in text.split(",")):
        if part == "all":
            chosen |= dict.fromkeys(policies(kind))
        elif part in beside or part in known:
            chosen[part] = None
        else:
            names = ", ".join([*sorted(known), *beside, "all"])
            raise InputError(f"--policy: unknown {_noun(kind)} {part!r} (known: {names})")
    return list(chosen)


def _setting(text: str, kind: Kind) -> tuple[str, str, int]:
    path, equals, number = text.partition("=")
    name, dot, key = path.strip().partition(".")
    if not (equals and dot and name and key):
        raise InputError(f"--set {text!r}: expected POLICY.TUNABLE=VALUE")
    tunables = {tunable.name: tunable for tunable in find(name, kind).tunables}
    field, _, element = key.partition(".")
    if field not in tunables:
        names = ", ".join(tunables) or "none"
        raise InputError(f"--set {text}: {name} has no tunable {field!r} (it has: {names})")
    tunable = tunables[field]
    elements = [str(i) for i in range(tunable.length)]
    if (tunable.length > 1 or "." in key) and element not in elements:
        last = tunable.length - 1
        raise InputError(f"--set {text}: {field!r} has elements {field}.0 to {field}.{last}")
    allowed = f"(allowed: {tunable.min} to {tunable.max})"
    try:
        value = int(number)
    except ValueError:
        raise InputError(f"--set {text}: {number!r} is not an integer {allowed}") from None
    if not tunable.min <= value <= tunable.max:
        raise InputError(f"--set {text}: out of range {allowed}")
    return name, key, value


def parse_settings(
    texts: Iterable[str], chosen: Sequence[str], kind: Kind = Kind.EVICTION
) -> dict[str, dict[str, int]]:
    """Return tunables per policy from `POLICY.TUNABLE=VALUE` texts, checked with the manifests.

    One element of an array is `POLICY.TUNABLE.ELEMENT=VALUE`; elements count from 0.

    Raises InputError for a policy outside `chosen`, an unknown tunable or a value out of range.
    """
    settings: dict[str, dict[str, int]] = {}
    for text in texts:
        name, key, value = _setting(text, kind)
        if name not in chosen:
            raise InputError(f"--set {text}: {name} is not among the policies of this run")
        settings.setdefault(name, {})[key] = value
    return settings
