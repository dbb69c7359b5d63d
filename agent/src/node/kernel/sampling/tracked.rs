// SPDX-License-Identifier: Apache-2.0
//! The cgroups that are tracked: a slot for each tenant, and the members of each.

use super::learning::Learning;
use super::lost::Lost;
use super::{Sampled, Sampling};
use crate::node::kernel::tenant::found::Found;
use std::collections::BTreeSet;

impl Sampling {
    /// Sets the tenants: new ones are tracked, and those that are gone free their slot.
    pub fn follow(&mut self, found: &[Found]) {
        let ids: BTreeSet<u64> = found.iter().map(|tenant| tenant.id).collect();
        let gone: Vec<u64> = self.tenants.keys().filter(|id| !ids.contains(id)).copied().collect();
        for id in gone {
            self.drop_tenant(id);
        }
        self.untracked.retain(|id| ids.contains(id));
        for tenant in found {
            if !self.tenants.contains_key(&tenant.id) && !self.add_tenant(tenant.id) {
                continue;
            }
            self.set_members(tenant);
        }
    }

    fn add_tenant(&mut self, id: u64) -> bool {
        let slot = self.free.pop_first().filter(|&slot| self.source.clear(slot).is_ok());
        let Some(slot) = slot else {
            self.miss(id);
            return false;
        };
        self.untracked.remove(&id);
        let sampled = Sampled {
            slot,
            members: BTreeSet::new(),
            untracked: 0,
            threshold: self.first_threshold,
            learning: Learning::default(),
            lost: Lost::default(),
            counts: None,
        };
        self.tenants.insert(id, sampled);
        true
    }

    fn miss(&mut self, id: u64) {
        if self.untracked.insert(id) {
            self.untracked_total += 1;
        }
    }

    fn drop_tenant(&mut self, id: u64) {
        let Some(tenant) = self.tenants.remove(&id) else { return };
        for member in tenant.members {
            // The member may now be a tenant of its own, or part of another one.
            if self.owners.get(&member) == Some(&id) {
                self.source.forget(member);
                self.owners.remove(&member);
            }
        }
        // Counts that remain are cleared before the slot is used for another tenant.
        let _ = self.source.clear(tenant.slot);
        self.free.insert(tenant.slot);
    }

    fn set_members(&mut self, found: &Found) {
        let Some(tenant) = self.tenants.get_mut(&found.id) else { return };
        let now: BTreeSet<u64> = found.members.iter().copied().collect();
        for &gone in tenant.members.difference(&now) {
            tenant.lost.leave(self.source.as_ref(), gone);
            if self.owners.get(&gone) == Some(&found.id) {
                self.source.forget(gone);
                self.owners.remove(&gone);
            }
        }
        let mut tracked: BTreeSet<u64> = tenant.members.intersection(&now).copied().collect();
        for &new in now.difference(&tenant.members) {
            if self.source.track(new, tenant.slot, tenant.threshold).is_ok() {
                tenant.lost.join(self.source.as_ref(), new);
                self.owners.insert(new, found.id);
                tracked.insert(new);
            }
        }
        tenant.members = tracked;
        tenant.untracked = now.len() - tenant.members.len();
        match tenant.untracked {
            0 => _ = self.untracked.remove(&found.id),
            _ => self.miss(found.id),
        }
    }
}
