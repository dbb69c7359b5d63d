// SPDX-License-Identifier: Apache-2.0
//! Plans: each is refused as a whole, or carried out action by action with a result for each. Also
//! the release when a lease ends.

use super::Daemon;
use super::node_thread::NoAnswer;
use crate::error::Result;
use crate::node::Node;
use crate::session::Up;
use crate::wire;
use std::time::Instant;
use tokio::time::timeout;
use wire::result::Outcome;

impl Daemon {
    /// Applies a plan and acknowledges it with the results.
    pub(super) async fn on_plan(&mut self, plan: wire::Plan) -> Result<()> {
        let ack = match self.book.admit(&plan, self.node_ms()).await {
            Ok(answers) => {
                self.hello.send_modify(|hello| hello.last_epoch = plan.epoch);
                self.name_tasks(&plan).await;
                let results = self.apply_all(&plan, answers).await?;
                self.settle(&plan, &results).await;
                wire::Ack { epoch: plan.epoch, refused: String::new(), results }
            }
            Err(reason) => {
                tracing::warn!(epoch = plan.epoch, "plan refused: {reason}");
                wire::Ack { epoch: plan.epoch, refused: reason, results: Vec::new() }
            }
        };
        self.shared.metrics.plan(ack.refused.is_empty());
        self.acknowledge(ack).await;
        Ok(())
    }

    /// Passes the named tasks to the node if they changed. A call that failed is made again with
    /// the next plan.
    async fn name_tasks(&mut self, plan: &wire::Plan) {
        if plan.named_tasks == self.named {
            return;
        }
        let named = plan.named_tasks.clone();
        let call = move |node: &mut dyn Node| node.name_tasks(&named);
        match self.node.call("the names of tasks", self.times.apply, call).await {
            Ok(()) => self.named.clone_from(&plan.named_tasks),
            Err(no_answer) => tracing::warn!("names of tasks: {no_answer}; once more later"),
        }
    }

    /// Carries out the actions in order, except those that have a result already. An action that
    /// hangs is given up; while it hangs, nothing else is tried, so that a plan takes no longer
    /// than its first hanging action.
    async fn apply_all(
        &mut self,
        plan: &wire::Plan,
        answers: Vec<Option<wire::Result>>,
    ) -> Result<Vec<wire::Result>> {
        let mut results = Vec::with_capacity(plan.actions.len());
        let mut hung = false;
        for (action, answer) in plan.actions.iter().zip(answers) {
            let result = if let Some(answer) = answer {
                answer
            } else if *self.stop.borrow() {
                failed(action, &"the agent is ending")
            } else if hung && !self.node.busy_for().is_zero() {
                failed(action, &NoAnswer::Busy(self.node.busy_with()))
            } else {
                let applied = self.apply(action).await;
                hung = applied.is_err();
                applied.unwrap_or_else(|no_answer| failed(action, &no_answer))
            };
            self.tell(&result);
            results.push(result);
            self.check_alive()?;
            // During a long plan, the controller still gets snapshots, unless the node hangs.
            if !hung {
                self.look_when_due().await?;
            }
        }
        Ok(results)
    }

    /// Ends the trial of changes whose settings are now to stay.
    async fn settle(&mut self, plan: &wire::Plan, results: &[wire::Result]) {
        if self.book.state().unconfirmed.is_empty() {
            return;
        }
        self.book.change(|unconfirmed| {
            let done = plan.actions.iter().zip(results);
            done.for_each(|(action, result)| unconfirmed.settle(action, result));
        });
        self.book.keep().await;
    }

    pub(super) async fn apply(
        &mut self,
        action: &wire::Action,
    ) -> std::result::Result<wire::Result, NoAnswer> {
        let (began, work) = (Instant::now(), action.clone());
        let what = format!("an action on {}", action.cgroup);
        let done = self.node.call(&what, self.times.apply, move |node| node.apply(&work)).await;
        self.shared.metrics.apply_seconds.observe(began.elapsed().as_secs_f64());
        if !matches!(done, Err(NoAnswer::Busy(_))) {
            // An observation that was under way shows the state before the action.
            self.late_look = None;
        }
        done
    }

    /// Logs and counts one result.
    pub(super) fn tell(&self, result: &wire::Result) {
        let (cgroup, policy, limit_bytes) = (&result.cgroup, &result.policy, result.limit_bytes);
        let outcome = result.outcome();
        self.shared.metrics.action(outcome);
        match outcome {
            Outcome::Applied | Outcome::Started => {
                tracing::info!(%cgroup, %policy, limit_bytes, "{}", outcome.as_str_name());
            }
            Outcome::Unchanged => {}
            _ => tracing::warn!(%cgroup, "{}: {}", outcome.as_str_name(), result.reason),
        }
    }

    async fn acknowledge(&mut self, ack: wire::Ack) {
        let Some(up) = &self.up else { return };
        // If the controller takes nothing, the session gives up and drops the queue.
        let handed = timeout(self.times.send * 2, up.send(Up::Ack(ack))).await;
        if !matches!(handed, Ok(Ok(()))) {
            self.shared.metrics.acks_dropped.inc();
        }
    }

    /// Handles a lease that ended without a newer plan: every tenant returns to its first policy
    /// and limit.
    pub(super) async fn on_lease_end(&mut self) {
        tracing::warn!("the lease has ended; every tenant returns to the kernel's default");
        // Tenants return to their first settings, and a rollback of a change on trial must not
        // follow that.
        self.book.change(super::unconfirmed::Unconfirmed::clear);
        self.late_look = None;
        let released = self.node.call("the release", self.times.stuck, |node| node.release()).await;
        let results = match released {
            Ok(results) => results,
            Err(no_answer) => {
                tracing::error!("release: {no_answer}; once more later");
                return self.book.release_later();
            }
        };
        results.iter().for_each(|result| self.tell(result));
        // A release that has only started is complete when the files show the restored values.
        if results.iter().any(wire::Result::is_left) {
            return self.book.release_later();
        }
        self.shared.metrics.leases_expired.inc();
        if let Err(reason) = self.book.released().await {
            tracing::error!("the release is not on disk: {reason}");
        }
    }
}

pub(super) fn failed(action: &wire::Action, reason: &impl ToString) -> wire::Result {
    wire::Result {
        cgroup: action.cgroup.clone(),
        outcome: Outcome::Failed.into(),
        reason: reason.to_string(),
        ..Default::default()
    }
}
