# SPDX-License-Identifier: Apache-2.0
"""Measure the named parts and merge their rows into results.json.

Measured by default: each share of memory, in percent of the distinct pages, and "adoption", which
compares policies that adopt the pages of an earlier policy. Measured only if named: "unseen",
workloads that were not used to tune the autopilot; "stops", the cost of undoing a change early;
"vm", the kernel's own page cache in the virtual machine; and "guard", an earlier decider, which
needs --checkout.
"""

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median

from experiments.autopilot.children import ChildError
from experiments.autopilot_simulated.tenants import further_traces, traces
from experiments.harvest import adoption, guard, stops, unseen
from experiments.harvest.compare import Outcome, compare
from experiments.harvest.loads import loads
from experiments.harvest.machine.measure import measure as measure_in_machine
from experiments.kernel_guest.guest_run import say
from experiments.shared import table
from experiments.shared.compiling import ProgramError
from experiments.shared.rows import ROOT, Row, commit, machine, merge
from experiments.shared.side_by_side import side_by_side

from cachepilot.errors import InputError

EXPERIMENT = Path(__file__).resolve().parent
COMMAND = "experiments/harvest/run"
SHARES_PCT = (3, 10, 30)
SEEDS = 3
SECONDS = 300.0
QUICK_SECONDS = 60.0
ADOPTION = "adoption"
GUARD = "guard"
MACHINE = "vm"
STOPS = "stops"
UNSEEN = "unseen"
QUICK_PARTS = ("10", ADOPTION)
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Share of the policies' gain that the autopilot reaches: results

Written by `experiments/harvest/run` from `results.json`; README.md says what is measured.
"""


def _worst(outcomes: Sequence[Outcome]) -> tuple[float, Outcome]:
    worst = min(outcomes, key=lambda one: one.autopilot_ops / one.default_ops)
    return worst.autopilot_ops / worst.default_ops, worst


def _share(outcomes: Sequence[Outcome], kind: str) -> float:
    """Return the tenants' total gain over the default, divided by that of their best policies."""
    return sum(one.gain(kind) for one in outcomes) / sum(one.gain("best") for one in outcomes)


def _known_beforehand(share_pct: int, by_seed: Sequence[Sequence[Outcome]]) -> list[Row]:
    """Return the default's throughput, and the best policy's throughput divided by it."""
    default, best = (
        [geometric_mean(getattr(one, f"{kind}_ops") for one in outcomes) for outcomes in by_seed]
        for kind in ("default", "best")
    )
    about = f"geometric mean over {len(by_seed[0])} tenants"
    return [
        Row.of_runs(
            f"autopilot.harvest.default.{share_pct}",
            default,
            "ops/s",
            better="higher",
            reference=f"{about}, in the node's time",
        ),
        Row.of_runs(
            f"autopilot.harvest.best.{share_pct}",
            [ours / theirs for ours, theirs in zip(best, default, strict=True)],
            "ratio",
            better="higher",
            reference=f"default, ops/s, {about}",
            reference_value=median(default),
        ),
    ]


def rows(share_pct: int, by_seed: Sequence[Sequence[Outcome]]) -> list[Row]:
    """Return the rows of one share of memory, with one value per seed."""
    total = f"{len(by_seed[0])} tenants"
    found = [
        Row.of_runs(
            f"autopilot.harvest.{name}.{share_pct}",
            [_share(outcomes, kind) for outcomes in by_seed],
            "ratio",
            better="higher",
            goal=unseen.GOALS.get(name),
            reference=f"{total}; gain of the best policy of each, pinned from the start",
        )
        for name, kind in (("share", "autopilot"), ("naive", "naive"), ("sequence", "sequence"))
    ]
    worsts = [_worst(outcomes) for outcomes in by_seed]
    least, worst = min(worsts, key=lambda one: one[0])
    found.append(
        Row(
            f"autopilot.harvest.worst.{share_pct}",
            least,
            "ratio",
            better="higher",
            goal=unseen.GOALS["worst"],
            reference=f"default, ops/s of the tenant that fares worst of all runs, {worst.name}",
            reference_value=worst.default_ops,
            runs=len(worsts),
            spread=(least, max(ratio for ratio, _ in worsts)),
        )
    )
    naive_worst = [min(one.naive_ops / one.default_ops for one in outcomes) for outcomes in by_seed]
    found.append(
        Row.of_runs(
            f"autopilot.harvest.naive_worst.{share_pct}", naive_worst, "ratio", better="higher"
        )
    )
    found += _known_beforehand(share_pct, by_seed)
    changes = [sum(one.changes for one in outcomes) / len(outcomes) for outcomes in by_seed]
    found.append(
        Row.of_runs(f"autopilot.harvest.changes.{share_pct}", changes, "changes", reference=total)
    )
    return found


def _tell(one: Outcome) -> None:
    say(
        f"{one.name}, seed {one.seed}: {one.autopilot_ops / one.default_ops:.3f} of the default "
        f"({one.best_policy}: {one.best_ops / one.default_ops:.3f}, "
        f"naive: {one.naive_ops / one.default_ops:.3f}), {one.changes} changes"
    )


def measure(share_pct: int, found: Sequence[Path], seconds: float, seeds: int) -> list[Row]:
    """Run every load whose page cache at this share of memory is large enough, with every seed."""
    by_seed = []
    for seed in range(1, seeds + 1):
        chosen = loads(found, share_pct / 100, seed)
        outcomes = []
        for one in side_by_side(partial(compare, seconds=seconds, seed=seed), chosen):
            _tell(one)
            outcomes.append(one)
        by_seed.append(outcomes)
    return rows(share_pct, by_seed)


def _adoption(found: Sequence[Path]) -> list[Row]:
    """Return the adoption rows over all loads of all shares of memory."""
    return adoption.rows([one for share in SHARES_PCT for one in loads(found, share / 100, 1)])


def _measured(arguments: argparse.Namespace) -> Iterator[tuple[list[Row], dict[str, str]]]:
    """Yield the rows of each part that was named, and the rows' origin."""
    folder = arguments.traces
    if not arguments.quick:
        folder = folder or further_traces()
    seconds, seeds = (QUICK_SECONDS, 1) if arguments.quick else (SECONDS, arguments.seeds)
    usual = QUICK_PARTS if arguments.quick else (*map(str, SHARES_PCT), ADOPTION)
    origin = {"command": COMMAND, "commit": commit(), "machine": machine()}
    for part in arguments.parts or usual:
        if part == ADOPTION:
            yield _adoption(traces(folder)), origin
        elif part == MACHINE:
            numbers = range(arguments.first, arguments.first + arguments.runs)
            found, run = measure_in_machine(numbers, arguments.quick)
            yield found, origin | run | {"command": f"{COMMAND} {MACHINE}"}
        elif part == UNSEEN:
            numbers = range(arguments.first, arguments.first + seeds)
            of = {"command": f"{COMMAND} {UNSEEN}"}
            for share_pct in SHARES_PCT:
                yield unseen.measure(share_pct, seconds, numbers), origin | of
        elif part == STOPS:
            numbers = range(arguments.first, arguments.first + seeds)
            yield stops.measure(SHARES_PCT, numbers), origin | {"command": f"{COMMAND} {STOPS}"}
        elif part == GUARD:
            checkout = arguments.checkout.resolve()
            of = {"command": f"{COMMAND} {GUARD} --checkout DIR", "commit": commit(checkout)}
            for share_pct in SHARES_PCT:
                rows = guard.measure(checkout, traces(folder), share_pct, seconds, seeds)
                yield rows, origin | of
        else:
            yield measure(int(part), traces(folder), seconds, seeds), origin


def _arguments() -> argparse.Namespace:
    parts = (*map(str, SHARES_PCT), ADOPTION, UNSEEN, STOPS, MACHINE, GUARD)
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--traces", type=Path, help="a folder of further traces, *.u64.zst")
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help=f"number of seeds (default: {SEEDS})"
    )
    parser.add_argument(
        "--checkout",
        type=Path,
        help="a built checkout with the earlier decider, for the part guard",
    )
    parser.add_argument(
        "--runs", type=int, default=1, help="runs of vm; 0: only collect earlier runs (default: 1)"
    )
    parser.add_argument(
        "--first",
        type=int,
        default=1,
        help="first run of vm, or first seed of unseen and stops (default: 1)",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; results go to build/")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part not in parts:
            parser.error(f"unknown part {part!r} (known: {', '.join(parts)})")
    is_guard = GUARD in arguments.parts
    if is_guard != (arguments.checkout is not None) or (is_guard and len(arguments.parts) > 1):
        parser.error(f"--checkout: required by the part {GUARD!r}, which runs alone")
    for name, least in (("runs", 0), ("first", 1)):
        if not least <= getattr(arguments, name) <= 999:
            parser.error(f"--{name} {getattr(arguments, name)}: must be {least} to 999")
    return arguments


def main() -> int:
    """Return 0 when every part that was named has been measured.

    Otherwise print the reason and return 1.
    """
    arguments = _arguments()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    out = ROOT / "build" / "harvest" / "quick" if arguments.quick else EXPERIMENT
    out.mkdir(parents=True, exist_ok=True)
    measured: list[Row] = []
    try:
        for found, origin in _measured(arguments):
            table.write(out / "table.md", HEAD, merge(out / "results.json", found, origin))
            measured += found
    except (ChildError, ProgramError, InputError) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps([asdict(row) for row in measured]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
