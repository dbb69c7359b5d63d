// SPDX-License-Identifier: Apache-2.0
//! The changes that an earlier agent left: each is adopted, undone or forgotten.

pub mod ledger;
pub mod units;

use crate::cgroup;
use crate::node::kernel::adoption::ledger::{Initial, Ledger};
use crate::node::kernel::limits::contest::Contest;
use crate::node::kernel::tenant::Tenant;
use crate::node::kernel::{KernelNode, now_us, steering, tenant};
use crate::wire;
use crate::wire::DEFAULT_POLICY;
use crate::wire::result::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// Whether this agent or an earlier one set the tenant's limit. If so, the agent has to raise it
/// when the floor rises.
pub(in crate::node::kernel) fn is_ours(ledger: &Ledger, tenant: &Tenant) -> bool {
    ledger.get(tenant.id).is_some_and(|initial| initial.high_bytes != tenant.limit.bytes())
}

/// Leaves a limit to another program if an earlier agent yielded it.
pub(in crate::node::kernel) fn keep_yielded(ledger: &Ledger, tenant: &mut Tenant) {
    if let Some(since_us) = ledger.get(tenant.id).and_then(|initial| initial.yielded_us) {
        tenant.limit.was_yielded();
        tenant.conditions.was_yielded(&tenant.limit, since_us);
    }
}

impl KernelNode {
    /// Records in the ledger whether another program sets the limit of a tenant now.
    pub(in crate::node::kernel) fn note_yield(&mut self, id: u64, now_us: u64) {
        let Some(tenant) = self.tenants.get(&id) else { return };
        let before = self.ledger.get(id).and_then(|initial| initial.yielded_us);
        let is_yielded = tenant.limit.contest() == Contest::Yielded;
        if is_yielded && before.is_none() {
            tracing::warn!(cgroup = %tenant.cgroup, "{}", tenant.limit.contest_told().0);
        }
        if let Err(error) = self.ledger.note_yield(id, is_yielded.then(|| before.unwrap_or(now_us)))
        {
            self.failed_reads += 1;
            tracing::warn!(%error, "whose limit it is was not noted");
        }
    }

    /// Removes the state of cgroups that are gone: their entries in the ledger, and their pins.
    /// State that cannot be removed does no harm: ids are not reused, and the next agent tries
    /// again. If a systemd unit still has the limit of its former cgroup, removal is tried again
    /// every second.
    pub(in crate::node::kernel) fn forget_gone(&mut self) {
        self.ask_for_units();
        let is_gone = |(id, initial): (&u64, &Initial)| {
            (self.fs.id(&initial.cgroup).ok() != Some(*id)).then(|| (*id, initial.cgroup.clone()))
        };
        let gone: Vec<(u64, String)> = self.ledger.entries().iter().filter_map(is_gone).collect();
        let mut done = BTreeSet::new();
        for (id, cgroup) in gone {
            match self.why_kept(id) {
                None => {
                    done.insert(id);
                }
                Some(reason) => {
                    tracing::warn!(%cgroup, "{reason}");
                    self.strangers.insert(id, reason);
                }
            }
        }
        let forgotten = self.ledger.forget(|id, _| done.contains(&id));
        let swept = self.policies.as_ref().map_or(Ok(()), |policies| policies.sweep());
        for error in [forgotten.err(), swept.err()].into_iter().flatten() {
            self.failed_reads += 1;
            tracing::warn!(%error, "what is kept of cgroups that are gone was not removed");
        }
    }

    /// The reason why a cgroup that is not found may still have what it got; `None` if it is gone.
    fn why_kept(&mut self, id: u64) -> Option<String> {
        self.why_elsewhere(id).or_else(|| self.why_unit_keeps(id))
    }

    /// The reason why nothing is known of a cgroup that is not found: the agent that changed it saw
    /// another part of the hierarchy. `None` if it is gone.
    pub(super) fn why_elsewhere(&self, id: u64) -> Option<String> {
        let (seen, mount) = (self.fs.root_id(), self.fs.mount());
        let is_gone = || cgroup::gone([id], mount).is_ok_and(|gone| gone.contains(&id));
        if self.ledger.get(id).is_none_or(|initial| initial.root == seen) || is_gone() {
            return None;
        }
        let mount = mount.display();
        Some(format!(
            "not found at {mount}, and the agent that changed it saw another part of the cgroup \
             hierarchy: run this in the cgroup namespace, and with the mount, of that agent"
        ))
    }

    /// Takes over the changes of an earlier agent. Cgroups that are no longer tenants get back what
    /// they had first. Limits below the floor are raised.
    pub(in crate::node::kernel) fn adopt(&mut self) {
        self.forget_gone();
        if self.ledger.is_lost() {
            self.detach_all();
        }
        let left: Vec<u64> = self.ledger.entries().keys().copied().collect();
        for id in left {
            if let Some(tenant) = self.tenants.get(&id) {
                let initial = self.ledger.get(id);
                if initial.is_some_and(|initial| tenant.differs_from(initial)) {
                    self.adopted.push(tenant.cgroup.clone());
                }
            } else {
                self.strangers.entry(id).or_default();
            }
        }
        self.restore_strangers();
        self.adopted.sort();
        for tenant in self.tenants.values_mut() {
            let ours = is_ours(&self.ledger, tenant);
            let swap_free = self.host.memory_bytes("SwapFree");
            let usage = tenant.usage(&self.fs, self.config.margin_bytes, swap_free);
            let Ok(usage) = usage else { continue };
            let mut with = steering(&self.fs, &mut self.writer, &self.config);
            if tenant.limit.check(&mut with, &usage, 0, ours).is_err() {
                self.failed_reads += 1;
            }
        }
    }

    /// Restores cgroups that are no longer tenants, and keeps trying until the result is known to
    /// be in force.
    pub(in crate::node::kernel) fn restore_strangers(&mut self) {
        if !self.strangers.is_empty() {
            self.ask_for_units();
        }
        for (id, told) in std::mem::take(&mut self.strangers) {
            if self.tenants.contains_key(&id) || self.ledger.get(id).is_none() {
                continue;
            }
            let result = self.restore(id);
            if self.ledger.get(id).is_none() {
                tracing::info!(cgroup = %result.cgroup, "is no tenant; it got back what it had");
                self.given_back.push(result);
                continue;
            }
            if told != result.reason {
                tracing::warn!(cgroup = %result.cgroup, "not given back yet: {}", result.reason);
            }
            self.strangers.insert(id, result.reason);
        }
    }

    /// Detaches all policies after the ledger was lost, when it is unknown what tenants had first.
    /// Limits stay as they are, since the operator may have set them.
    fn detach_all(&mut self) {
        let root = self.fs.root_id();
        let is_held = |tenant: &&Tenant| tenant.own_policy() != DEFAULT_POLICY;
        let entry = |tenant: &Tenant| {
            (tenant.id, Initial { policy: DEFAULT_POLICY.into(), ..tenant.initial(root) })
        };
        let mut held: BTreeMap<u64, Initial> =
            self.tenants.values().filter(is_held).map(entry).collect();
        // Cgroups with a policy of their own that are not tenants now.
        for cgroup in cgroup::walk(self.fs.mount()) {
            if tenant::has_policy(&cgroup) {
                let path = cgroup.path.strip_prefix(self.fs.mount()).unwrap_or(&cgroup.path);
                let name = format!("/{}", path.display());
                let high_bytes = self.fs.limit(&name, "memory.high").ok().flatten();
                let policy = DEFAULT_POLICY.into();
                let initial = Initial { cgroup: name, high_bytes, policy, yielded_us: None, root };
                held.entry(cgroup.id).or_insert(initial);
            }
        }
        let ids: Vec<u64> = held.keys().copied().collect();
        if let Err(error) = self.ledger.begin_anew(held) {
            // What is held is released all the same. The lost ledger is still there, so the next
            // start does this again for what is left.
            tracing::error!(%error, "the ledger cannot be written");
        }
        tracing::error!(
            "what tenants had is not known: policies are detached, limits stay as they are"
        );
        for id in ids {
            let result = self.restore(id);
            if self.ledger.get(id).is_some() {
                tracing::error!(cgroup = %result.cgroup, "not detached: {}", result.reason);
            }
            self.given_back.push(result);
            if let Some(tenant) = self.tenants.get_mut(&id) {
                tenant.reread(&self.fs, self.policies.as_deref());
            }
        }
        for tenant in self.tenants.values().filter(|tenant| tenant.limit.bytes().is_some()) {
            self.given_back.push(tenant.failed(&self.fs, "what limit it had is not known"));
        }
    }

    /// Restores every cgroup that may have been changed, and forgets those that are restored.
    pub(in crate::node::kernel) fn restore_all(&mut self) -> Vec<wire::Result> {
        self.ask_for_units();
        let ids: Vec<u64> = self.ledger.entries().keys().copied().collect();
        ids.into_iter().map(|id| self.restore(id)).collect()
    }

    /// Restores a cgroup's first policy and limit, and removes its entry when that succeeded.
    pub(in crate::node::kernel) fn restore(&mut self, id: u64) -> wire::Result {
        self.note_yield(id, now_us());
        let Some(initial) = self.ledger.get(id).cloned() else {
            return wire::Result::default();
        };
        let mut with = steering(&self.fs, &mut self.writer, &self.config);
        let policies = self.policies.as_deref();
        let mut result = tenant::restore(&mut with, policies, id, &initial);
        if result.outcome() == Outcome::Gone
            && let Some(reason) = self.why_kept(id)
        {
            (result.outcome, result.reason) = (Outcome::Failed.into(), reason);
        }
        if !result.is_left() {
            // If this fails, the next agent restores the cgroup again, which does no harm.
            let forgotten = self.ledger.forget(|entry, _| entry == id);
            if let Err(error) = forgotten {
                tracing::warn!(%error, "the ledger could not be written");
            }
        }
        result
    }
}
