// SPDX-License-Identifier: Apache-2.0
//! Losses of one tenant's events since its curves were last judged.

use crate::bpf::layout::Losses;
use crate::bpf::source::AccessSource;
use std::collections::BTreeMap;

/// Losses of a tenant from one judgement of its curves to the next.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Losses of each cgroup, as last read.
    seen: BTreeMap<u64, Losses>,
    /// Losses since the last [`Self::take`].
    since: Losses,
    /// The error that prevented reading them.
    unread: String,
}

impl Lost {
    /// Begins to follow a cgroup that joins the tenant. Its earlier losses do not count.
    pub(super) fn join(&mut self, source: &dyn AccessSource, cgroup_id: u64) {
        self.seen.insert(cgroup_id, source.losses_of(cgroup_id).unwrap_or_default());
    }

    /// Adds the losses of one of the tenant's cgroups since they were last read.
    pub(super) fn look(&mut self, source: &dyn AccessSource, cgroup_id: u64) {
        match source.losses_of(cgroup_id) {
            Ok(now) => {
                let before = self.seen.insert(cgroup_id, now).unwrap_or_default();
                self.since += now.since(before);
            }
            Err(error) => self.unread = format!("what it lost could not be read: {error}"),
        }
    }

    /// As [`Self::look`], for a cgroup that leaves the tenant.
    pub(super) fn leave(&mut self, source: &dyn AccessSource, cgroup_id: u64) {
        self.look(source, cgroup_id);
        self.seen.remove(&cgroup_id);
    }

    /// Takes the losses since the last call, or the reason why they are unknown.
    pub(super) fn take(&mut self) -> Result<Losses, String> {
        let since = std::mem::take(&mut self.since);
        match std::mem::take(&mut self.unread) {
            unread if unread.is_empty() => Ok(since),
            unread => Err(unread),
        }
    }
}
