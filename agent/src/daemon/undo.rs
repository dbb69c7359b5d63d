// SPDX-License-Identifier: Apache-2.0
//! Changes that nobody confirmed in time are undone, with or without a controller.

use super::Daemon;
use crate::wire;
use std::sync::Arc;

impl Daemon {
    /// The node's time in milliseconds, as it was last seen.
    pub(super) fn node_ms(&self) -> u64 {
        self.shared.seen().map_or(self.book.wall_ms(), |seen| seen.observation.time_us / 1000)
    }

    /// Adds to tenants what waits to be confirmed.
    pub(super) fn tell_unconfirmed(&self, tenants: &mut [wire::Tenant], node_ms: u64) {
        let unconfirmed = &self.book.state().unconfirmed;
        if unconfirmed.is_empty() {
            return;
        }
        for tenant in tenants {
            tenant.unconfirmed = unconfirmed.told(tenant, node_ms);
        }
    }

    /// Undoes changes whose time was over at the last look. A rollback that fails is tried again.
    pub(super) async fn undo_overdue(&mut self) {
        if self.book.state().unconfirmed.is_empty() {
            return;
        }
        let Some(seen) = self.shared.seen() else { return };
        let observation = Arc::clone(&seen.observation);
        let now_ms = observation.time_us / 1000;
        let actions =
            self.book.change(|unconfirmed| unconfirmed.overdue(&observation.tenants, now_ms));
        let mut tried = Vec::with_capacity(actions.len());
        for action in actions {
            let cgroup = &action.cgroup;
            tracing::warn!(%cgroup, "a change was not confirmed in time; it is undone");
            let (result, answered) = self.apply(&action).await;
            self.tell(&result);
            self.shared.metrics.undone(result.outcome());
            tried.push((action, result));
            self.watchdog.alive();
            // While one hangs the others would too; they are as overdue at the next look.
            if !answered || *self.stop.borrow() {
                break;
            }
        }
        self.book.change(|unconfirmed| {
            tried.iter().for_each(|(action, result)| unconfirmed.tried(action, result, now_ms));
        });
        self.book.keep().await;
    }
}
