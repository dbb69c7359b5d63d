// SPDX-License-Identifier: Apache-2.0
//! The state in memory and on disk, and when the lease ends.

use super::clock::Clock;
use super::state::{Lease, State, Store};
use crate::error::Result;
use crate::exporter::AgentMetrics;
use crate::wire;
use std::path::Path;
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
}

impl Book {
    /// Opens the state in `dir` and counts a new incarnation.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Store::write`].
    pub fn open(dir: &Path, clock: Arc<dyn Clock>, metrics: Arc<AgentMetrics>) -> Result<Self> {
        let (store, mut state) = Store::open(dir)?;
        let now = clock.wall();
        state.incarnation = (now.as_micros() as u64).max(state.incarnation + 1);
        store.write(&state)?;
        let mut book =
            Self { store: Arc::new(Mutex::new(store)), state, clock, lease_until: None, metrics };
        book.hold(state);
        Ok(book)
    }

    /// What holds.
    pub fn state(&self) -> State {
        self.state
    }

    /// When the lease ends; `None` without one.
    pub fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    /// Checks that `plan` is newer than any before it, and stores its epoch and its lease: from
    /// then on it may be applied, and never again.
    ///
    /// # Errors
    /// Why the plan is refused.
    pub async fn admit(&mut self, plan: &wire::Plan) -> std::result::Result<(), String> {
        if plan.epoch <= self.state.last_epoch {
            let last = self.state.last_epoch;
            return Err(format!("epoch {} is not newer than {last}", plan.epoch));
        }
        let length_ms = u64::from(plan.lease_ms);
        let deadline_ms = self.clock.wall().as_millis() as u64 + length_ms;
        let lease = (length_ms > 0).then_some(Lease { deadline_ms, length_ms });
        self.write(State { last_epoch: plan.epoch, lease, ..self.state }).await
    }

    /// All is as it was without the agent: no lease is left to keep.
    ///
    /// # Errors
    /// Why that is not on disk; then the next start releases again, which changes nothing.
    pub async fn released(&mut self) -> std::result::Result<(), String> {
        let state = State { lease: None, ..self.state };
        self.hold(state);
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
        let writing = tokio::task::spawn_blocking(move || store.write(&state));
        match timeout(STORE_TIME, writing).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Err(format!("its epoch cannot be stored: {error}")),
            Ok(Err(error)) => return Err(format!("its epoch cannot be stored: {error}")),
            Err(_) => {
                let ms = STORE_TIME.as_millis();
                return Err(format!("its epoch cannot be stored: no answer for {ms} ms"));
            }
        }
        self.metrics.store_seconds.observe(began.elapsed().as_secs_f64());
        self.hold(state);
        Ok(())
    }

    fn hold(&mut self, state: State) {
        let wall_ms = self.clock.wall().as_millis() as u64;
        let left = state.lease.map(|lease| Duration::from_millis(lease.left_ms(wall_ms)));
        self.lease_until = left.map(|left| Instant::now() + left);
        let deadline = state.lease.map_or(0, |lease| lease.deadline_ms / 1000);
        self.metrics.lease_deadline_seconds.set(deadline as i64);
        self.metrics.epoch.set(state.last_epoch as i64);
        self.state = state;
    }
}
