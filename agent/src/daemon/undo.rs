// SPDX-License-Identifier: Apache-2.0
//! Undoes changes that were not confirmed in time, with or without a controller.

use super::Daemon;
use super::node_thread::NoAnswer;
use super::plans::failed;
use crate::node::{Observation, Pace};
use crate::wire;
use std::sync::Arc;

impl Daemon {
    /// The node's time in milliseconds. In real time, it goes on even while observations do not
    /// return.
    pub(super) fn node_ms(&self) -> u64 {
        self.shared.seen().map_or(self.book.wall_ms(), |seen| self.now_ms(&seen.observation))
    }

    /// As [`Self::node_ms`], with the observation that was just made.
    pub(super) fn now_ms(&self, seen: &Observation) -> u64 {
        match self.pace {
            Pace::RealTime => self.book.wall_ms(),
            Pace::Lockstep => seen.time_us / 1000,
        }
    }

    /// Adds the changes on trial to the tenants' states.
    pub(super) fn tell_unconfirmed(&self, tenants: &mut [wire::Tenant], node_ms: u64) {
        let unconfirmed = &self.book.state().unconfirmed;
        if unconfirmed.is_empty() {
            return;
        }
        for tenant in tenants {
            tenant.unconfirmed = unconfirmed.told(tenant, node_ms);
        }
    }

    /// Undoes changes whose time is over, with the tenants as last observed. A rollback that fails
    /// is tried again.
    pub(super) async fn undo_overdue(&mut self) {
        if self.book.state().unconfirmed.is_empty() {
            return;
        }
        let Some(seen) = self.shared.seen() else { return };
        let observation = Arc::clone(&seen.observation);
        let now_ms = self.now_ms(&observation);
        let actions =
            self.book.change(|unconfirmed| unconfirmed.overdue(&observation.tenants, now_ms));
        let mut tried = Vec::with_capacity(actions.len());
        for action in actions {
            let applied = self.apply(&action).await;
            // A rollback that was not begun is still overdue at the next observation.
            if matches!(applied, Err(NoAnswer::Busy(_))) {
                break;
            }
            let hung = applied.is_err();
            let result = applied.unwrap_or_else(|no_answer| failed(&action, &no_answer));
            if !self.book.state().unconfirmed.is_under_way(&action) {
                let cgroup = &action.cgroup;
                tracing::warn!(%cgroup, "a change was not confirmed in time; it is undone");
                self.shared.metrics.undone(result.outcome());
            }
            self.tell(&result);
            tried.push((action, result));
            self.watchdog.alive();
            // While one hangs, the others would hang, too.
            if hung || *self.stop.borrow() {
                break;
            }
        }
        self.book.change(|unconfirmed| {
            tried.iter().for_each(|(action, result)| unconfirmed.tried(action, result, now_ms));
        });
        self.book.keep().await;
    }
}
