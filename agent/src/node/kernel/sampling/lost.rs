// SPDX-License-Identifier: Apache-2.0
//! What was lost of one tenant's events since its curves were last judged.

use crate::bpf::sampler_layout::Losses;
use crate::bpf::source::AccessSource;
use std::collections::BTreeMap;

/// Losses of a tenant, from one judgement of its curves to the next.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Of each cgroup, as they were read last.
    seen: BTreeMap<u64, Losses>,
    /// Since the last [`Self::take`].
    since: Losses,
    /// What kept them from being read.
    unread: String,
}

impl Lost {
    /// Follows a cgroup that is the tenant's from now on; what it lost before is not.
    pub(super) fn join(&mut self, source: &dyn AccessSource, cgroup_id: u64) {
        self.seen.insert(cgroup_id, source.losses_of(cgroup_id).unwrap_or_default());
    }

    /// Takes what a cgroup of the tenant lost since the last look at it.
    pub(super) fn look(&mut self, source: &dyn AccessSource, cgroup_id: u64) {
        match source.losses_of(cgroup_id) {
            Ok(now) => {
                let before = self.seen.insert(cgroup_id, now).unwrap_or_default();
                self.since += now.since(before);
            }
            Err(error) => self.unread = format!("what it lost could not be read: {error}"),
        }
    }

    /// The same, of a cgroup that ceases to be the tenant's.
    pub(super) fn leave(&mut self, source: &dyn AccessSource, cgroup_id: u64) {
        self.look(source, cgroup_id);
        self.seen.remove(&cgroup_id);
    }

    /// What was lost since the last time; or why it is not known.
    pub(super) fn take(&mut self) -> Result<Losses, String> {
        let since = std::mem::take(&mut self.since);
        match std::mem::take(&mut self.unread) {
            unread if unread.is_empty() => Ok(since),
            unread => Err(unread),
        }
    }
}
