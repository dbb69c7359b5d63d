// SPDX-License-Identifier: Apache-2.0
//! The agent's state in memory and on disk, and the end of the lease.

use super::clock::Clock;
use super::state::{Lease, State, Store};
use super::unconfirmed::Unconfirmed;
use crate::exporter::AgentMetrics;
use crate::wire;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// The longest wait for a write of the state. If the disk takes longer, plans are refused, so that
/// the agent stays responsive.
const STORE_TIME: Duration = Duration::from_secs(5);
/// Time until a release is tried again after it failed for some tenants.
const RELEASE_AGAIN: Duration = Duration::from_secs(5);

/// Maintains the state.
pub struct Book {
    store: Arc<Mutex<Store>>,
    state: State,
    clock: Arc<dyn Clock>,
    lease_until: Option<Instant>,
    metrics: Arc<AgentMetrics>,
    /// The state in memory has changes that are not on disk.
    dirty: bool,
}

impl Book {
    /// Takes the opened store and counts a new incarnation. Changes on trial of another `boot` are
    /// forgotten, see `Identity.boot`. If the disk takes no writes, the agent starts anyway: it
    /// observes tenants and restores them when that is due, but refuses plans.
    pub fn open(
        (store, mut state): (Store, State),
        boot: &str,
        clock: Arc<dyn Clock>,
        metrics: Arc<AgentMetrics>,
    ) -> Self {
        let now = clock.wall();
        state.incarnation = (now.as_micros() as u64).max(state.incarnation + 1);
        state.unconfirmed = state.unconfirmed.in_boot(boot);
        let written = store.write(&state);
        if let Err(error) = &written {
            tracing::error!(%error, "the state is not on disk; plans are refused until it is");
        }
        let store = Arc::new(Mutex::new(store));
        let mut book = Self {
            store,
            state: State::default(),
            clock,
            lease_until: None,
            metrics,
            dirty: written.is_err(),
        };
        book.hold(state);
        book
    }

    /// The present state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Milliseconds since 1970.
    pub fn wall_ms(&self) -> u64 {
        self.clock.wall().as_millis() as u64
    }

    /// When the lease ends; `None` without a lease.
    pub fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    /// Checks that `plan` is newer than any before it, and stores its epoch, its lease and the
    /// rollbacks of its changes. From then on the plan may be applied, and never again. `node_ms`
    /// is the time of the node. Returns, for each action, the result if the node has nothing to do
    /// for it.
    ///
    /// # Errors
    /// Returns the reason why the plan is refused.
    pub async fn admit(
        &mut self,
        plan: &wire::Plan,
        node_ms: u64,
    ) -> std::result::Result<Vec<Option<wire::Result>>, String> {
        if plan.epoch <= self.state.last_epoch {
            let last = self.state.last_epoch;
            return Err(format!("epoch {} is not newer than {last}", plan.epoch));
        }
        let length_ms = u64::from(plan.lease_ms);
        let deadline_ms = self.wall_ms() + length_ms;
        let lease = (length_ms > 0).then_some(Lease { deadline_ms, length_ms });
        let mut unconfirmed = self.state.unconfirmed.clone();
        let answers = unconfirmed.admit(&plan.actions, node_ms);
        let incarnation = self.state.incarnation;
        let state = State { last_epoch: plan.epoch, lease, incarnation, unconfirmed };
        let written = self.write(state).await;
        written.map_err(|reason| format!("its epoch cannot be stored: {reason}"))?;
        Ok(answers)
    }

    /// Changes the record of changes on trial. The change takes effect at once, and is on disk
    /// after the next [`Book::keep`] or plan.
    pub fn change<T>(&mut self, with: impl FnOnce(&mut Unconfirmed) -> T) -> T {
        let before = self.state.unconfirmed.clone();
        let done = with(&mut self.state.unconfirmed);
        self.dirty |= self.state.unconfirmed != before;
        self.count();
        done
    }

    /// Writes the changes made by [`Book::change`] to disk.
    pub async fn keep(&mut self) {
        if !self.dirty {
            return;
        }
        if let Err(reason) = self.write(self.state.clone()).await {
            // The state on disk is older: an agent that starts from it undoes those changes once
            // more.
            tracing::error!("changes on trial are not on disk: {reason}");
        }
    }

    /// Records that every tenant was released: there is no lease any more, and nothing on trial.
    ///
    /// # Errors
    /// Returns the reason why the state could not be written. The next start then releases again,
    /// which changes nothing.
    pub async fn released(&mut self) -> std::result::Result<(), String> {
        let state = self.state.clone().released();
        self.hold(state.clone());
        self.write(state).await
    }

    /// Schedules another release, as the lease ended but some tenants could not be released yet.
    pub fn release_later(&mut self) {
        self.lease_until = Some(Instant::now() + RELEASE_AGAIN);
    }

    async fn write(&mut self, state: State) -> std::result::Result<(), String> {
        // A write that was given up may still be under way, and the next one must not overtake it.
        let Ok(store) = Arc::clone(&self.store).try_lock_owned() else {
            return Err("the last write of the state has not ended yet".into());
        };
        let began = Instant::now();
        let text = state.clone();
        let writing = tokio::task::spawn_blocking(move || store.write(&text));
        match timeout(STORE_TIME, writing).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Err(error.to_string()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err(format!("no answer for {} ms", STORE_TIME.as_millis())),
        }
        self.metrics.store_seconds.observe(began.elapsed().as_secs_f64());
        self.dirty = false;
        if state.lease == self.state.lease && state.last_epoch == self.state.last_epoch {
            // The lease continues as before, and so does a release that is to be tried again.
            self.state = state;
        } else {
            self.hold(state);
        }
        Ok(())
    }

    fn hold(&mut self, state: State) {
        let wall_ms = self.wall_ms();
        let left = state.lease.map(|lease| Duration::from_millis(lease.left_ms(wall_ms)));
        self.lease_until = left.map(|left| Instant::now() + left);
        let deadline = state.lease.map_or(0, |lease| lease.deadline_ms / 1000);
        self.metrics.lease_deadline_seconds.set(deadline as i64);
        self.metrics.epoch.set(state.last_epoch as i64);
        self.state = state;
        self.count();
    }

    fn count(&self) {
        self.metrics.changes_unconfirmed.set(self.state.unconfirmed.waiting() as i64);
    }
}
