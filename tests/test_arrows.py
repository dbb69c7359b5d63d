# SPDX-License-Identifier: Apache-2.0
"""The check of the controller's layers reports each offence, and nothing else."""

from pathlib import Path

import arrows
import pytest

ROOT = Path(__file__).resolve().parent.parent
HOUSE = {
    "errors.py": "class InputError(Exception): ...\n",
    "sizes.py": "from app.errors import InputError\n",
    "v1/session_pb2.py": "",
    "domain/snapshot.py": "import numpy\n\nfrom app.errors import InputError\n",
    "sense/collect.py": "from app.domain import snapshot\nfrom app.v1 import session_pb2\n",
    "model/fitting.py": "from app.domain import snapshot\nfrom app.sense.collect import Seen\n",
    "plan/plan.py": "from app.plan.problem import build\nfrom app.model.fitting import Fit\n",
    "plan/problem/build.py": "import app.domain.snapshot\n",
    "decide/step.py": "from app.plan import plan\n",
    "store/store.py": "from app.domain.snapshot import Snapshot\n",
    "node/loop.py": "from app.decide.step import step\nfrom app.store.store import Store\n",
    "fleet/fleet.py": "from app.node.loop import Loop\n",
    "api/app.py": "from app.fleet.fleet import Fleet\nimport fastapi\n",
    "openslo/reading.py": "from app.domain.snapshot import Snapshot\n",
    "vm/machine.py": "from app.sizes import pages_up\n",
    "cli/main.py": "from app.api.app import app\nfrom app.openslo import reading\nimport app.vm\n",
}


def check(path: Path, **more: str) -> list[str]:
    """Return the offences of a small package with files added or replaced.

    `__` in a keyword stands for a slash.
    """
    root = path / "app"
    for name, text in {**HOUSE, **{_path(key): text for key, text in more.items()}}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return arrows.offences(root)


def _path(key: str) -> str:
    return key.replace("__", "/") + ".py"


def test_the_tree_is_in_order() -> None:
    assert arrows.offences(ROOT / "controller" / "cachepilot") == []


def test_arrows_that_point_down_are_allowed(tmp_path: Path) -> None:
    assert check(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("sense__up", "from app.model.fitting import Fit", "sense must not import model"),
        ("plan__up", "from app.decide import step", "plan must not import decide"),
        ("plan__problem__up", "import app.decide.step", "plan must not import decide"),
        ("decide__up", "from app.node.loop import Loop", "decide must not import node"),
        ("node__up", "from app.fleet.fleet import Fleet", "node must not import fleet"),
        ("fleet__up", "from app.api import app", "fleet must not import api"),
        ("api__up", "from ..cli import main", "api must not import cli"),
        ("store__up", "from app.sense.collect import Seen", "store must not import sense"),
        ("plan__aside", "from app.store.store import Store", "plan must not import store"),
        ("openslo__up", "from app.plan import plan", "openslo must not import plan"),
        ("fleet__aside", "from app.vm import machine", "fleet must not import vm"),
        ("hosts", "from app.domain import snapshot", "a utility must not import domain"),
        ("ranges", "from app.v1 import session_pb2", "a utility must not know the protocol"),
        ("model__late", "def f():\n    from app import plan", "model must not import plan"),
    ],
)
def test_an_arrow_that_points_up_is_an_offence(
    tmp_path: Path, file: str, text: str, told: str
) -> None:
    offence, *circles = check(tmp_path, **{file: f"{text}\n"})
    line = len(text.splitlines())
    assert offence.startswith(f"app/{_path(file)}:{line}: ") and told in offence
    assert all("folders import one another" in one for one in circles)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from app.sense.collect import Seen", "domain must not import sense"),
        ("from app.store import store", "domain must not import store"),
        ("from app.v1 import session_pb2", "domain must not know the protocol"),
        ("from pydantic import BaseModel", "domain must not know pydantic"),
        ("import fastapi.responses", "domain must not know fastapi"),
    ],
)
def test_domain_knows_values_alone(tmp_path: Path, text: str, told: str) -> None:
    offences = check(tmp_path, domain__objectives__value=f"{text}\n")
    assert told in offences[0] and offences[0].startswith("app/domain/objectives/value.py:1: ")


def test_folders_that_import_one_another_are_an_offence(tmp_path: Path) -> None:
    (offence,) = check(tmp_path, plan__problem__again="from app.plan.plan import plan\n")
    assert offence.startswith("app: folders import one another: ")
    assert {"plan", "plan/problem"} <= set(offence.split(": ")[2].split(" <- "))


def test_a_cycle_of_three_folders_is_an_offence(tmp_path: Path) -> None:
    circle = {
        "plan__a__one": "from app.plan.b import two\n",
        "plan__b__two": "from app.plan.c import three\n",
        "plan__c__three": "from app.plan.a import one\n",
    }
    (offence,) = check(tmp_path, **circle)
    assert all(f"plan/{folder}" in offence for folder in "abc")


def test_a_folder_that_is_too_large_is_an_offence(tmp_path: Path) -> None:
    most = {f"model__part{one}": "" for one in range(arrows.FILES_MAX - 1)}
    assert check(tmp_path, **most) == []
    (offence,) = check(tmp_path, model__one_more="")
    assert offence == f"app/model: {arrows.FILES_MAX + 1} files, at most 14 are allowed"


def test_a_folder_without_a_place_in_the_order_is_an_offence(tmp_path: Path) -> None:
    assert check(tmp_path, misc__thing="") == ["app/misc: has no place in the order"]
