// SPDX-License-Identifier: Apache-2.0
//! The state in memory and on disk, and when the lease ends.

use super::clock::Clock;
use super::state::{Lease, State, Store};
use super::unconfirmed::Unconfirmed;
use crate::exporter::AgentMetrics;
use crate::wire;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// A disk that takes longer makes plans refused rather than the agent deaf.
const STORE_TIME: Duration = Duration::from_secs(5);
/// After a release that did not work for every tenant.
const RELEASE_AGAIN: Duration = Duration::from_secs(5);

/// Keeps the state.
pub struct Book {
    store: Arc<Mutex<Store>>,
    state: State,
    clock: Arc<dyn Clock>,
    lease_until: Option<Instant>,
    metrics: Arc<AgentMetrics>,
    /// What could not be written yet.
    dirty: bool,
}

impl Book {
    /// Takes what was opened and counts a new incarnation; what was changed in another `boot` is
    /// forgotten, see `Identity.boot`. A disk that takes nothing is no reason not to begin: what is
    /// held is watched and given back when it is due, and plans are refused.
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

    /// What holds.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Milliseconds since 1970.
    pub fn wall_ms(&self) -> u64 {
        self.clock.wall().as_millis() as u64
    }

    /// When the lease ends; `None` without one.
    pub fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    /// Checks that `plan` is newer than any before it, and stores its epoch, its lease and the ways
    /// back of its changes: from then on it may be applied, and never again. `node_ms` is the time
    /// of the node. The answers to actions that the node has nothing to do with, in their places.
    ///
    /// # Errors
    /// Why the plan is refused.
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

    /// Changes what is kept of changes on trial. It holds at once, and is on disk with the next
    /// [`Book::keep`] or plan.
    pub fn change<T>(&mut self, with: impl FnOnce(&mut Unconfirmed) -> T) -> T {
        let before = self.state.unconfirmed.clone();
        let done = with(&mut self.state.unconfirmed);
        self.dirty |= self.state.unconfirmed != before;
        self.count();
        done
    }

    /// Makes safe on disk what [`Book::change`] did.
    pub async fn keep(&mut self) {
        if !self.dirty {
            return;
        }
        if let Err(reason) = self.write(self.state.clone()).await {
            // What is on disk is older: an agent that starts from it undoes once more.
            tracing::error!("changes on trial are not on disk: {reason}");
        }
    }

    /// All is as it was without the agent: no lease is left to keep.
    ///
    /// # Errors
    /// Why that is not on disk; then the next start releases again, which changes nothing.
    pub async fn released(&mut self) -> std::result::Result<(), String> {
        let state = self.state.clone().released();
        self.hold(state.clone());
        self.write(state).await
    }

    /// The lease ended, but not all could be released yet.
    pub fn release_later(&mut self) {
        self.lease_until = Some(Instant::now() + RELEASE_AGAIN);
    }

    async fn write(&mut self, state: State) -> std::result::Result<(), String> {
        // A write that was given up may still be on its way; the next must not pass it.
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
            // The lease goes on where it was, a release that is to be tried again too.
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
