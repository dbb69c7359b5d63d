# SPDX-License-Identifier: Apache-2.0
"""Choice of policies by name and of tunables by range, on the built manifests."""

import pytest

from cachepilot import manifest
from cachepilot.errors import InputError
from cachepilot.manifest import Tunable

TUNABLES: list[tuple[str, Tunable]] = [
    (policy.name, tunable) for policy in manifest.policies().values() for tunable in policy.tunables
]
SCALARS = [(name, tunable) for name, tunable in TUNABLES if tunable.length == 1]
ARRAYS = [(name, tunable) for name, tunable in TUNABLES if tunable.length > 1]


def test_all_selects_every_folder_but_not_opt() -> None:
    assert manifest.select("all") == list(manifest.policies())
    assert manifest.select("all,opt,lru") == [*manifest.policies(), "opt"]
    assert "opt" not in manifest.policies()


def test_names_keep_their_order_and_come_once() -> None:
    assert manifest.select("lru, fifo,lru") == ["lru", "fifo"]


@pytest.mark.parametrize("text", ["nope", "", "lru,", "LRU"])
def test_an_unknown_name_lists_the_known(text: str) -> None:
    with pytest.raises(InputError, match=r"known: .*fifo.*lru"):
        manifest.select(text)


def test_tunables_are_checked_against_their_range() -> None:
    assert SCALARS
    for name, tunable in SCALARS:
        path = f"{name}.{tunable.name}"
        for value in {tunable.min, tunable.default, tunable.max}:
            found = manifest.parse_settings([f"{path}={value}"], [name])
            assert found == {name: {tunable.name: value}}
        for text in (tunable.min - 1, tunable.max + 1, "x", "1.5", ""):
            with pytest.raises(InputError, match=f"allowed: {tunable.min} to {tunable.max}"):
                manifest.parse_settings([f"{path}={text}"], [name])
        with pytest.raises(InputError, match="not among the policies of this run"):
            manifest.parse_settings([f"{path}={tunable.default}"], ["none"])


@pytest.mark.parametrize(("name", "tunable"), ARRAYS, ids=lambda part: getattr(part, "name", part))
def test_elements_of_an_array_are_set_one_by_one(name: str, tunable: Tunable) -> None:
    path = f"{name}.{tunable.name}"
    last = tunable.length - 1
    texts = [f"{path}.0={tunable.min}", f"{path}.{last}={tunable.max}"]
    expected = {f"{tunable.name}.0": tunable.min, f"{tunable.name}.{last}": tunable.max}
    assert manifest.parse_settings(texts, [name]) == {name: expected}
    for key in (path, f"{path}.", f"{path}.{last + 1}", f"{path}.-1", f"{path}.x"):
        with pytest.raises(InputError, match=f"{tunable.name}.0 to {tunable.name}.{last}"):
            manifest.parse_settings([f"{key}={tunable.default}"], [name])


@pytest.mark.parametrize("text", ["lru", "lru=1", "lru.=1", ".x=1", "nope.x=1", "fifo.nope=1"])
def test_a_setting_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        manifest.parse_settings([text], ["lru", "fifo"])
