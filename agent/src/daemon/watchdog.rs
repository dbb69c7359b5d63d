// SPDX-License-Identifier: Apache-2.0
//! Notifies the service manager that the agent has started and is alive, by sd_notify(3). Does
//! nothing without a service manager.

use sd_notify::{NotifyState, notify, watchdog_enabled};
use std::time::Duration;
use tokio::time::Instant;

/// Notifies the service manager in time.
#[derive(Debug)]
pub struct Watchdog {
    every: Option<Duration>,
    next: Option<Instant>,
}

impl Watchdog {
    /// A watchdog by the manager's environment, which notifies twice as often as required. A node
    /// may keep the agent busy for `stuck`.
    pub fn new(stuck: Duration) -> Self {
        let every = watchdog_enabled().map(|within| within / 2);
        if let Some(every) = every.filter(|&every| every < stuck) {
            let (every, stuck) = (every.as_millis(), stuck.as_millis());
            tracing::warn!(
                "WatchdogSec: half of it ({every} ms) is below stuck_timeout_ms ({stuck})"
            );
        }
        Self { every, next: None }
    }

    /// Notifies that the agent has started.
    pub fn ready(&mut self) {
        tell(NotifyState::Ready);
        self.next = self.every.map(|every| Instant::now() + every);
    }

    /// When the manager must be notified next.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Notifies that the agent is alive, if that is due.
    pub fn alive(&mut self) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            tell(NotifyState::Watchdog);
            self.next = self.every.map(|every| now + every);
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = notify(&[state]) {
        tracing::warn!(%error, "the service manager was not told");
    }
}
