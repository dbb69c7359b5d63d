# SPDX-License-Identifier: Apache-2.0
"""One policy on trial, from the order to the verdict."""

from dataclasses import dataclass, field, replace

from cachepilot.control.collect import Seen
from cachepilot.control.counters import Sample
from cachepilot.control.decisions import Decision, Event, Reading, Setting
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.trial_budget import lost_s
from cachepilot.control.verdict import (
    Stats,
    change,
    is_jump,
    ops_noise,
    stats,
    why_no_better,
    why_no_gain,
    why_worse,
)
from cachepilot.readable import number

COLLAPSE_OPS = 0.5
COLLAPSE_MISS = 0.1
COLLAPSE_INTERVALS = 3
"""So far below its baseline for so many intervals, a policy is not waited for to adapt."""

JUDGED_MAX = 60
"""Intervals at most that a verdict rests on."""
HITS_MIN = 0.05
RESTARTS_MAX = 2
"""Of the window of one trial: a load that changes more often is not waited for."""


@dataclass
class PolicyTrial:
    """A change of policy under observation; kept whole over restarts.

    `from_miss` is what the curve of the baseline's policy said when it began: when that changes
    beyond its error bar, the workload did, and the baseline moves with it. `ahead_miss` is by how
    much that curve was ahead of the baseline then: a phase had just begun. `phase` is the one that
    its window is of, and `restarts` how often that began anew because the load changed.
    `is_far` is whether what it promised was far beyond error bars. `misses` are those since it took
    effect, and `is_put_off` when its gain is looked at once they have brought new contents.
    `lost_s` is what it cost so far, in seconds of the baseline's throughput; it is taken back when
    that is more than `may_lose_s`.
    """

    from_policy: str
    to_policy: str
    limit_bytes: int
    started_s: float
    baseline: Stats
    predicted: Reading
    from_miss: float
    ahead_miss: float = 0.0
    effective_s: float | None = None
    accesses: int = 0
    misses: float = 0.0
    is_put_off: bool = False
    waited_s: float = 0.0
    adapted: bool = False
    samples: list[Sample] = field(default_factory=list)
    phase: int = 0
    is_other_phase: bool = False
    restarts: int = 0
    lost_s: float = 0.0
    may_lose_s: float | None = None
    is_far: bool = True

    def ends_s(self, config: GuardConfig, interval_s: float) -> float:
        """When it will be judged at the latest, if data keeps coming."""
        begun = self.started_s if self.effective_s is None else self.effective_s
        return begun + config.adapt_max_s + config.judge_intervals * interval_s

    def move_back(self, seconds: float, config: GuardConfig) -> None:
        """With a clock that went back so far: it is waited for no longer."""
        self.started_s -= seconds
        self.effective_s = None if self.effective_s is None else self.effective_s - seconds
        self.waited_s = config.patience_s + config.effect_s

    def decision(self, cgroup: str, time_s: float, event: Event, why: str) -> Decision:
        """What is written down of it."""
        return Decision(
            time_s=time_s,
            cgroup=cgroup,
            event=event,
            before=Setting(self.from_policy, self.limit_bytes),
            after=Setting(self.to_policy, self.limit_bytes),
            why=why,
            baseline=self.baseline.reading,
            predicted=self.predicted,
            measured=stats(self.samples).reading if self.samples else Reading(),
        )


@dataclass(frozen=True)
class Outcome:
    """The end of a trial; `back` when its baseline is to be restored.

    Not `blamed` when it is the load's doing: the policy may be tried again.
    """

    event: Event
    why: str
    back: bool
    blamed: bool = True


@dataclass(frozen=True)
class _Shift:
    """By how much the workload moved the miss ratio of the baseline's policy, and the error bar."""

    miss: float
    error_bar: float


def _shift(trial: PolicyTrial, seen: Seen, config: GuardConfig) -> _Shift | None:
    """None when the workload did not change; only curves that are trusted tell."""
    if seen.measured is None or not seen.tenant.trust.trusted:
        return None
    now = seen.measured.miss_at(trial.from_policy, trial.limit_bytes)
    if now is None:
        return None
    error = seen.measured.error_at(trial.from_policy, trial.limit_bytes)
    moved = now - trial.from_miss
    return _Shift(moved, error) if abs(moved) > 2 * error + config.miss_tolerance else None


def _superseded(trial: PolicyTrial, seen: Seen, allowed: frozenset[str], margin: float) -> bool:
    """Whether another policy than the one on trial is best by far, in the phase that came."""
    measured = seen.measured
    best = None if measured is None else measured.best_at(allowed, trial.limit_bytes)
    if measured is None or best is None or best[0] in (trial.to_policy, trial.from_policy):
        return False
    here = measured.miss_at(trial.to_policy, trial.limit_bytes)
    bars = [measured.error_at(name, trial.limit_bytes) for name in (best[0], trial.to_policy)]
    return here is not None and here - best[1] > 2 * sum(bars) + margin


def _covers(trial: PolicyTrial, config: GuardConfig) -> bool:
    """Whether what was measured is longer than a pass of a loop, which hits and misses in turn.

    Of a loop over L pages the best policy hits C / L: that gives L where hits are predicted.
    """
    hits = max(HITS_MIN, 1 - (trial.predicted.miss_ratio or 0.0))
    needed = config.turned_pages(trial.limit_bytes) / hits
    passed_s = trial.samples[-1].time_s - (trial.effective_s or 0.0)
    full = len(trial.samples) == JUDGED_MAX or passed_s >= 2 * config.adapt_max_s
    return full or sum(one.accesses for one in trial.samples) >= needed


def _is_collapse(trial: PolicyTrial) -> bool:
    last = trial.samples[-COLLAPSE_INTERVALS:]
    return len(last) == COLLAPSE_INTERVALS and all(
        one.ops < COLLAPSE_OPS * trial.baseline.ops
        and one.miss_ratio > trial.baseline.miss + COLLAPSE_MISS
        for one in last
    )


def _judge(trial: PolicyTrial, shift: _Shift | None, config: GuardConfig) -> str | None:
    """Why the trial is to be taken back; None when it is better than its baseline.

    In another phase than its own the baseline is what the earlier policy would do there, and
    nothing is known of what this one was to gain there: it is to be better.
    """
    before, after = trial.baseline, stats(trial.samples)
    promised = max(0.0, trial.from_miss - (trial.predicted.miss_ratio or 0.0))
    if shift is None and trial.ahead_miss == 0 and not trial.is_other_phase:
        worse = why_worse(before, after, change(before, after, config))
        return worse or why_no_gain(before, after, promised, config)
    shift = shift or _Shift(0.0, 0.0)
    expected = min(1.0, max(0.0, before.miss + trial.ahead_miss + shift.miss))
    if after.miss > expected + config.miss_tolerance + shift.error_bar:
        return (
            f"a miss ratio of {expected:.4f} expected of {trial.from_policy} in the phase that "
            f"came, {after.miss:.4f} measured"
        )
    moved = replace(before, miss=expected)
    if trial.is_other_phase:
        return why_no_better(moved, after, config)
    return why_no_gain(moved, after, promised, config)


def advance(
    trial: PolicyTrial,
    seen: Seen,
    elapsed_s: float,
    allowed: frozenset[str],
    config: GuardConfig,
) -> Outcome | None:
    """Lets one snapshot pass; returns how the trial ends when it does."""
    now_s = trial.started_s if seen.sample is None else seen.sample.time_s
    if trial.effective_s is None:
        if seen.tenant.policy != trial.to_policy:
            trial.waited_s += elapsed_s
            late = trial.waited_s > config.effect_s
            why = f"not in effect after {config.effect_s:g} s"
            return Outcome(Event.ABANDONED, why, back=True) if late else None
        trial.effective_s, trial.waited_s = max(now_s, trial.started_s), 0.0
        return None
    if seen.tenant.policy != trial.to_policy:
        why = f"{seen.tenant.policy} was put in its place, or it was ejected"
        return Outcome(Event.ABANDONED, why, back=True)
    if seen.sample is None:
        # Who does nothing says nothing of its policy.
        return _wait(trial, elapsed_s, "nothing was measured", config, blamed=False)
    return _observe(trial, seen, elapsed_s, allowed, config)


def _wait(
    trial: PolicyTrial, elapsed_s: float, reason: str, config: GuardConfig, blamed: bool = True
) -> Outcome | None:
    trial.waited_s += elapsed_s
    if trial.waited_s <= config.patience_s:
        return None
    why = f"{reason} for more than {config.patience_s:g} s"
    return Outcome(Event.ABANDONED, why, back=True, blamed=blamed and not trial.is_other_phase)


def _observe(
    trial: PolicyTrial,
    seen: Seen,
    elapsed_s: float,
    allowed: frozenset[str],
    config: GuardConfig,
) -> Outcome | None:
    assert seen.sample is not None
    if seen.wire.phase > trial.phase:
        return _restart(trial, seen)
    # An agent that was restarted counts them anew.
    trial.phase = seen.wire.phase
    shift = _shift(trial, seen, config)
    if shift is not None and _superseded(trial, seen, allowed, config.miss_tolerance):
        why = "the workload changed: another policy is the best by far"
        return Outcome(Event.ABANDONED, why, back=False)
    if trial.samples and trial.restarts < RESTARTS_MAX and is_jump(trial.samples[-1], seen.sample):
        trial.samples.clear()
        trial.restarts += 1
    trial.samples.append(seen.sample)
    trial.misses += seen.sample.accesses * seen.sample.miss_ratio
    costly = _costs(trial, seen.sample)
    if costly is not None:
        return costly
    if not trial.adapted:
        return _adapt(trial, seen.sample, config)
    return _verdict(trial, seen, elapsed_s, shift, config)


def _restart(trial: PolicyTrial, seen: Seen) -> Outcome | None:
    """Another phase began: its window does too, and what was measured before is no baseline."""
    assert seen.sample is not None
    if not trial.is_far:
        why = f"another phase began, and {trial.to_policy} promised little in the last"
        return Outcome(Event.ABANDONED, why, back=True, blamed=False)
    trial.phase, trial.is_other_phase = seen.wire.phase, True
    if trial.restarts >= RESTARTS_MAX:
        why = f"the workload changed {trial.restarts + 1} times while it was on trial"
        return Outcome(Event.ABANDONED, why, back=True, blamed=False)
    trial.restarts += 1
    trial.samples.clear()
    trial.effective_s, trial.accesses, trial.misses = seen.sample.time_s, 0, 0.0
    trial.adapted = trial.is_put_off = False
    return None


def _costs(trial: PolicyTrial, sample: Sample) -> Outcome | None:
    """Ends a trial that cost more than it may, however long it would have taken to adapt."""
    if trial.is_other_phase:
        return None
    trial.lost_s += lost_s(sample, trial.baseline)
    if trial.may_lose_s is None or trial.lost_s <= trial.may_lose_s:
        return None
    why = f"it cost {trial.lost_s:.1f} s of throughput (allowed: {trial.may_lose_s:.1f} s)"
    return Outcome(Event.REVERTED, why, back=True)


def _adapt(trial: PolicyTrial, sample: Sample, config: GuardConfig) -> Outcome | None:
    trial.accesses += sample.accesses
    passed_s = sample.time_s - (trial.effective_s or 0.0)
    turned = trial.accesses >= config.turned_pages(trial.limit_bytes)
    if _is_collapse(trial) and not trial.is_other_phase:
        why = "throughput fell to less than half while it adapted"
        return Outcome(Event.REVERTED, why, back=True)
    del trial.samples[:-COLLAPSE_INTERVALS]
    if passed_s >= config.adapt_min_s and (turned or passed_s >= config.adapt_max_s):
        trial.adapted = True
        trial.samples.clear()
    return None


def _has_gained(trial: PolicyTrial, config: GuardConfig) -> bool:
    """Whether what was measured speaks for it, whatever curves say."""
    found = change(trial.baseline, stats(trial.samples), config)
    return found.ops_better and not found.miss_worse and not trial.is_other_phase


def _may_gain_yet(trial: PolicyTrial, shift: _Shift | None, config: GuardConfig) -> bool:
    """Whether most of what is cached was left by the baseline, and it does no harm so far.

    Only misses bring what a policy would keep: where most accesses hit, many turnovers of accesses
    are few of the contents. Where the baseline moved no harm can be told.
    """
    passed_s = trial.samples[-1].time_s - (trial.effective_s or 0.0)
    turned = trial.misses >= config.turned_pages(trial.limit_bytes)
    if turned or passed_s >= config.adapt_max_s or trial.is_other_phase:
        return False
    if shift is not None or trial.ahead_miss < 0:
        return False
    before, after = trial.baseline, stats(trial.samples)
    if why_worse(before, after, change(before, after, config)) is not None:
        return False
    least_ops = before.ops * (1 - config.tolerance_pct / 100) - ops_noise(before, after)
    return after.miss <= before.miss or after.ops >= least_ops


def _verdict(
    trial: PolicyTrial,
    seen: Seen,
    elapsed_s: float,
    shift: _Shift | None,
    config: GuardConfig,
) -> Outcome | None:
    del trial.samples[:-JUDGED_MAX]
    if len(trial.samples) < config.judge_intervals or not _covers(trial, config):
        return None
    trusted = seen.tenant.trust.trusted
    # Only trusted curves tell what the baseline would be in another phase.
    worse = None if trial.is_other_phase and not trusted else _judge(trial, shift, config)
    if (worse is not None or trial.is_put_off) and _may_gain_yet(trial, shift, config):
        # From now on until then only harm counts: of many looks at noise one would see a gain.
        trial.is_put_off = True
        trial.samples.clear()
        return None
    if worse is not None:
        return Outcome(Event.REVERTED, worse, back=True)
    if not trusted:
        reason = f"curves were not to be trusted ({seen.tenant.trust.reason})"
        outcome = _wait(trial, elapsed_s, reason, config)
        if outcome is None or not _has_gained(trial, config):
            return outcome
    before, after = trial.baseline, stats(trial.samples)
    why = (
        f"miss ratio {before.miss:.4f} -> {after.miss:.4f}, "
        f"{number(before.ops)} -> {number(after.ops)} ops/s"
    )
    return Outcome(Event.KEPT, why, back=False)
