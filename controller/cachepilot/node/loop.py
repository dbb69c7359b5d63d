# SPDX-License-Identifier: Apache-2.0
"""The control loop of one node: sense -> plan -> decide -> apply, once per snapshot.

A cycle that fails is logged and shown as the node's problem, and its plan changes nothing. Sessions
are handled elsewhere. The time of a cycle is that of the node's snapshot.

Terms: the *epoch* is the number of a plan. A *wish* is the setting that a tenant should have after
a cycle. An *order* is a wish that an operator gave by a pin, which needs no evidence. The *first
memory* is the limit that a tenant had when it was first seen.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from cachepilot.domain.decisions import Decision
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.units import BYTES_MAX
from cachepilot.node import node_state
from cachepilot.node.acting.acknowledged import Acknowledged, refused_pins
from cachepilot.node.acting.apply import Applier, named_tasks
from cachepilot.node.acting.rollbacks import rollbacks
from cachepilot.node.advisor import Advisor
from cachepilot.node.asked import Asked, AskedOfNode
from cachepilot.node.collector import Collector
from cachepilot.node.deciding.calibrated import calibrated, certain, first_misses
from cachepilot.node.deciding.config import NodeConfig
from cachepilot.node.deciding.decider import Decider, Look
from cachepilot.node.deciding.presence import beside_away, beside_reserved
from cachepilot.node.deciding.wish import pinned
from cachepilot.node.epochs import Epochs
from cachepilot.node.freshness import Clock, Freshness
from cachepilot.node.keeper import Keeper
from cachepilot.node.needs.free_memory import FreeMemory
from cachepilot.node.needs.sampling import sample
from cachepilot.node.plan_step import Planned, held_fast, plan_step
from cachepilot.node.protection import protected
from cachepilot.node.records import Records
from cachepilot.node.series.node_series import NodeSeries
from cachepilot.node.shown.changes import Changes, Topic
from cachepilot.node.shown.evidence import Evidence
from cachepilot.node.shown.report import Published, Report, slo_views, trial_views
from cachepilot.node.shown.targets import Targets
from cachepilot.node.timing import CYCLE_SECONDS, CYCLES_FAILED, SERIES_LOST, timed
from cachepilot.sense.collect import Collected
from cachepilot.sense.node_scrape import LOOPBACK, NodeScrape, Scraped
from cachepilot.sizes import pages_down
from cachepilot.store.journal import NodeRow
from cachepilot.store.store import Store
from cachepilot.v1 import session_pb2 as wire

LOG = logging.getLogger(__name__)
SAVE_CYCLES = 10
"""The whole state and the windows of SLOs are stored once in this number of cycles."""


class NodeLoop:
    """The loop of one node. Any thread may call it; calls are handled one at a time.

    The cycle of a session that is cut off keeps running, so calls of the next session wait for it.
    """

    def __init__(
        self,
        row: NodeRow,
        config: NodeConfig,
        store: Store,
        asked: Callable[[], Asked],
        scraped: Scraped,
        changes: Changes | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.name = row.name
        self.hello = node_state.restored_hello(row, store)
        self.last_seen_s, self.heard_s = row.last_seen_s, row.heard_s
        self.connected = False
        self._published = Published()
        lost = SERIES_LOST.labels(row.name).inc
        self.series = NodeSeries(config.interval_ms / 1000, lost)
        self.reserved: Mapping[str, int] = {}
        """Memory that is reserved for tenants that will move to this node, bytes by cgroup."""
        self._changes = Changes() if changes is None else changes
        self._config, self._store = config, store
        self._asked = AskedOfNode(row.name, asked)
        self.interval_s = config.interval_ms / 1000
        self.freshness = Freshness(self.interval_s, clock)
        self._scraped = NodeScrape(scraped)
        self._collector = Collector(row.name, self._scraped, self.interval_s)
        self._decider = Decider(config.decide, node_state.restored(row, store), self.interval_s)
        self._advisor = Advisor(config, self._decider)
        self._keeper = Keeper(row.name, store)
        self.baselines, self.windows = self._keeper.baselines, self._keeper.windows
        self.needs = self._keeper.needs
        log, alpha = self._keeper.changes, config.decide.alpha
        self._evidence = Evidence(log, self.interval_s, alpha)
        self._applier = Applier(config)
        self._targets = Targets(config.planner.model)
        self._acknowledged = Acknowledged(row.name, self._applier)
        self.free = FreeMemory()
        self._epochs = Epochs(row.name, store, self._keeper)
        self._records = Records(row.name, store)
        self._published.note(reversed(store.history(None, row.name, 1000)))
        self._cycles = 0
        self._turn = threading.Lock()

    @property
    def report(self) -> Report | None:
        """The report of the last cycle; None before the first. It is made on first access.

        Any thread may read it. The next cycle makes it first, because it changes the objects that
        the report is made from.
        """
        return self._published.report

    @property
    def epoch(self) -> int:
        """The epoch of the last plan; 0 before the first."""
        return self._epochs.last

    def begin(self, hello: wire.Hello, address: str = LOOPBACK) -> None:
        """Begin a session that the agent opened from this network address."""
        with self._turn:
            self._scraped.move(address)
            if hello.incarnation != self.hello.incarnation:
                self._decider.agent_restarted()
            self.hello = hello
            self._collector.begin(hello)
            self._acknowledged.forget()
            self._epochs.begin_above(hello.last_epoch)
            try:
                self._store.set_hello(self.name, hello.SerializeToString())
            except Exception as error:
                self._keeper.failed(error)

    def acknowledge(self, ack: wire.Ack) -> None:
        """Queue an acknowledgement for the next cycle."""
        self._acknowledged.add(ack)

    def cycle(self, seen: wire.Snapshot) -> wire.Plan:
        """Return the plan that answers a snapshot. After an error it has no actions."""
        with self._turn:
            return self._cycle(seen)

    def _cycle(self, seen: wire.Snapshot) -> wire.Plan:
        epoch = self._epochs.take()
        plan = wire.Plan(epoch=epoch, snapshot=seen.sequence, lease_ms=self._config.lease_ms)
        self.last_seen_s, self.heard_s = seen.time_us / 1e6, self._store.now_s()
        self.freshness.hear(self.heard_s)
        # Make the last report first: this cycle changes the objects that it is made from.
        _ = self.report
        started = time.perf_counter()
        try:
            asked = self._asked.among(seen.tenants)
            plan.named_tasks.extend(named_tasks(seen, asked.objectives))
            plan.actions.extend(self._run(seen, epoch, asked))
        except Exception as error:
            self._published.fail(self._failed(seen, epoch, error))
        CYCLE_SECONDS.observe(time.perf_counter() - started)
        return plan

    def _failed(self, seen: wire.Snapshot, epoch: int, error: Exception) -> Report:
        """Return the last report, or an empty one, with no plan and the error as its problem.

        The next write stores the whole state, because this cycle may have changed any part of it.
        """
        CYCLES_FAILED.labels(self.name).inc()
        self._keeper.forget()
        LOG.error("node %s: the cycle of epoch %d failed", self.name, epoch, exc_info=error)
        problem = f"{type(error).__name__}: {error}"
        found = self._published.failed(epoch, problem)
        if found is not None:
            return found
        empty = wire.Snapshot(time_us=seen.time_us, budget_bytes=min(seen.budget_bytes, BYTES_MAX))
        collected = Collector(self.name).collect(empty, epoch, Objectives())
        return Report(collected, None, Objectives(), epoch, problem)

    def _run(self, seen: wire.Snapshot, epoch: int, asked: Asked) -> list[wire.Action]:
        config = self._config
        with timed("collect"):
            collected = self._collector.collect(seen, epoch, asked.objectives)
        step_bytes = pages_down(int(config.planner.movement_share * seen.budget_bytes))
        stated, decider = self._asked.with_pins(asked), self._decider
        decisions = self._acknowledged.take(collected)
        with timed("observe"):
            decisions += decider.observe(collected, stated)
            objectives, orders = decider.restored(collected, stated)
            collected, guarded = self._bounded(collected, objectives)
        self.free.take(collected.time_s, collected.free_bytes, decider.is_gap)
        with timed("plan"):
            held = decider.held(collected)
            unsettled, wait_us = decider.unsettled(collected, held), self._wait_us()
            self._targets.take(collected, objectives, decider.shifts, unsettled, wait_us)
            asked_of_plan = self._targets.corrected(objectives)
            least, left_alone = config.decide.least_gain, decider.left_alone
            needed = decider.least_bytes(collected, self._targets.unknown())
            fixed = held_fast(asked_of_plan, collected, held, least, left_alone, needed)
            can_limit = "limits" in self.hello.capabilities
            planned = plan_step(collected, fixed, config, can_limit, guarded)
        with timed("decide"):
            ordered = pinned(planned.plan, planned.objectives) | orders
            refused = self._applier.take_refused_policies()
            decisions += refused_pins(collected, ordered, refused)
            decided = decider.step(
                Look(
                    collected,
                    planned.plan,
                    objectives,
                    planned.objectives,
                    step_bytes,
                    planned.config.model,
                    refused,
                    ordered,
                    self._targets.short(),
                    planned.limits_fixed,
                    restored=planned.restored,
                    fallen=self._targets.fallen(),
                    may_begin=not self._keeper.problem,
                )
            )
            decisions += decided.decisions
        with timed("advise"):
            decisions += self._advisor.step(collected, asked_of_plan, step_bytes, can_limit)
        with timed("store"):
            is_stored = self._keep(collected, planned, objectives, decisions, epoch)
        with timed("apply"):
            wishes, state = decided.wishes, decider.state
            if not is_stored:
                wishes = rollbacks(wishes, ordered, state.tenants, state.memory.restore)
            sent = self._applier.actions(collected, wishes, objectives, epoch, state, ordered)
        made = (collected, planned, stated, epoch)
        self._published.later(partial(self._publish, seen, *made))
        return sent

    def _bounded(
        self, collected: Collected, objectives: Objectives
    ) -> tuple[Collected, Collected | None]:
        """Return the collected node with each tenant's floor, first memory and calibrated curves.

        Memory that is kept for missing tenants, or reserved, is not free in it. The second node is
        the same with all of their memory as the floor of tenants whose policy is unproven, None if
        there are none.
        """
        states = self._decider.state.tenants
        first_bytes = {cgroup: one.held_first_bytes for cgroup, one in states.items()}
        recents, share = self._decider.recents, self._config.least_share
        sure = certain(collected, objectives, states, recents)
        curves = calibrated(collected, self._decider.shifts, recents)
        missed = first_misses(states, recents)
        unproven = self._decider.unproven(collected)
        beside = beside_away(collected, self._decider.state.away)
        beside = beside_reserved(beside, self.reserved)
        known = beside, objectives, share, first_bytes, curves, sure, missed
        return protected(*known), protected(*known, unproven) if unproven else None

    def _wait_us(self) -> float:
        """The time that a device read waits by the last plan, microseconds; 0 without a plan."""
        last = self._published.latest
        plan = None if last is None else last.plan
        return 0.0 if plan is None else plan.device_wait_us

    def _keep(
        self,
        collected: Collected,
        planned: Planned,
        objectives: Objectives,
        decisions: list[Decision],
        epoch: int,
    ) -> bool:
        """Store decisions and trials before the plan is sent, so that a crash never loses a trial.

        Return False if they could not be stored. The plan may then begin nothing.
        """
        self._published.note(decisions, collected.seen.keys())
        self._keeper.windows.take_all(collected, objectives)
        state = self._decider.state
        self._keeper.baselines.take(collected, state.tenants)
        self._keeper.changes.take(decisions, epoch)
        self._evidence.observe(state, collected)
        has_news = bool(decisions) or self._keeper.has_waiting
        is_stored = self._keeper.keep(state, decisions, epoch, collected.time_s)
        if is_stored and has_news:
            self._changes.tell(Topic.DECISIONS, self.name)
        if is_stored and decisions:
            self._records.take(collected, planned, epoch)
        return is_stored

    def _publish(
        self,
        seen: wire.Snapshot,
        collected: Collected,
        planned: Planned,
        objectives: Objectives,
        epoch: int,
    ) -> Report:
        """Return the report of a cycle. It is made after the plan is sent, or on first access."""
        try:
            return self._made(collected, planned, objectives, epoch)
        except Exception as error:
            return self._failed(seen, epoch, error)

    def _made(
        self,
        collected: Collected,
        planned: Planned,
        objectives: Objectives,
        epoch: int,
    ) -> Report:
        slos = self._targets.told(planned.plan.slos, objectives, collected)
        told = replace(planned.plan, slos=slos)
        return Report(
            collected=collected,
            plan=told,
            objectives=objectives,
            epoch=epoch,
            problem=planned.problem or self._keeper.problem,
            slos=slo_views(collected, told, objectives, self._keeper.windows),
            trials=trial_views(self._decider.state, collected),
            last=dict(self._published.last),
            decisions=self._keeper.totals.shown(),
            advice=self._advisor.advice,
        )

    def after(self) -> None:
        """Do what can wait until the plan is sent: fit models, store series and records."""
        with self._turn:
            self._after()

    def _after(self) -> None:
        # Before listeners are notified, so that none of them has to make it.
        report = self.report
        self._changes.tell(Topic.NODE, self.name)
        try:
            self._collector.refit()
            if report is not None:
                self.series.take(report)
                self._take_needs(report)
            self._keeper.keep_series(self.series, self._cycles)
            self._cycles += 1
            self._records.store()
            if self._cycles % SAVE_CYCLES == 0:
                self._save()
            # The time that the work above took does not count as silence of the node.
            self.freshness.hear(self.heard_s)
        except Exception:
            LOG.exception("node %s: what follows a cycle failed", self.name)

    def _take_needs(self, report: Report) -> None:
        """Sample what tenants need now, if that is due, for consolidation."""
        if report.plan is None or self._decider.is_gap or not self.needs.is_due(self.heard_s):
            return
        told = report.collected.seen.values()
        stated = self._asked.among(one.wire for one in told).objectives
        sample(self.needs, report.collected, stated, self._config.planner, self.heard_s)

    def _save(self) -> None:
        report, state = self.report, self._decider.state
        known = None
        # A cycle that failed does not say which tenants exist, least of all the first cycle.
        if report is not None and report.plan is not None:
            known = report.collected.seen.keys() | state.away.keys()
        self._keeper.keep_all(state, self.epoch, self.last_seen_s, known)

    def end(self) -> None:
        """End a session: store everything that is not stored yet."""
        with self._turn:
            self.connected = False
            self._save()
            self._keeper.keep_series(self.series)
            self.needs.save()
        self._changes.tell(Topic.NODE, self.name)
