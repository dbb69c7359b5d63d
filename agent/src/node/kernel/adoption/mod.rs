// SPDX-License-Identifier: Apache-2.0
//! What an agent before this one left: it is adopted, given back, or forgotten.

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

/// Whether a tenant's limit is one that this agent set: its floor is ours to keep then.
pub(in crate::node::kernel) fn is_ours(ledger: &Ledger, tenant: &Tenant) -> bool {
    ledger.get(tenant.id).is_some_and(|initial| initial.high_bytes != tenant.limit.bytes())
}

/// A limit that an agent before this one yielded stays with whom it was yielded to.
pub(in crate::node::kernel) fn keep_yielded(ledger: &Ledger, tenant: &mut Tenant) {
    if let Some(since_us) = ledger.get(tenant.id).and_then(|initial| initial.yielded_us) {
        tenant.limit.was_yielded();
        tenant.conditions.was_yielded(&tenant.limit, since_us);
    }
}

impl KernelNode {
    /// Puts down whether the limit of a tenant is someone else's now.
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

    /// Removes what is kept of cgroups that are gone: entries of the ledger, and pins. What cannot be
    /// removed does no harm: ids are not used again, and the next agent tries once more. Whose unit
    /// keeps its limit yet is tried again each second.
    pub(in crate::node::kernel) fn forget_gone(&mut self) {
        self.ask_for_units();
        let is_gone = |(id, initial): (&u64, &Initial)| {
            (self.fs.id(&initial.cgroup).ok() != Some(*id)).then(|| (*id, initial.cgroup.clone()))
        };
        let gone: Vec<(u64, String)> = self.ledger.entries().iter().filter_map(is_gone).collect();
        let mut done = BTreeSet::new();
        for (id, cgroup) in gone {
            match self.why_unit_keeps(id) {
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

    /// Takes over what an agent before this one left. Tenants that are none any more get back what
    /// they had; limits below the floor are lifted.
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
            if tenant.limit.check(&mut with, &usage, ours).is_err() {
                self.failed_reads += 1;
            }
        }
    }

    /// Gives back what cgroups had that are no tenants, until that is known to hold.
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

    /// Without the ledger nobody knows what tenants had: those with a policy get the kernel's own,
    /// and limits stay, as they may be the operator's.
    fn detach_all(&mut self) {
        let is_held = |tenant: &&Tenant| tenant.own_policy() != DEFAULT_POLICY;
        let entry = |tenant: &Tenant| {
            (tenant.id, Initial { policy: DEFAULT_POLICY.into(), ..tenant.initial() })
        };
        let mut held: BTreeMap<u64, Initial> =
            self.tenants.values().filter(is_held).map(entry).collect();
        // Those that are no tenants now, with policies of their own.
        for cgroup in cgroup::walk(self.fs.mount()) {
            if tenant::has_policy(&cgroup) {
                let path = cgroup.path.strip_prefix(self.fs.mount()).unwrap_or(&cgroup.path);
                let name = format!("/{}", path.display());
                let high_bytes = self.fs.limit(&name, "memory.high").ok().flatten();
                let policy = DEFAULT_POLICY.into();
                let initial = Initial { cgroup: name, high_bytes, policy, yielded_us: None };
                held.entry(cgroup.id).or_insert(initial);
            }
        }
        let ids: Vec<u64> = held.keys().copied().collect();
        if let Err(error) = self.ledger.begin_anew(held) {
            tracing::error!(%error, "policies stay until the ledger can be written");
            return;
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

    /// Gives all that may have been changed back what it had, and forgets who has it.
    pub(in crate::node::kernel) fn restore_all(&mut self) -> Vec<wire::Result> {
        self.ask_for_units();
        let ids: Vec<u64> = self.ledger.entries().keys().copied().collect();
        ids.into_iter().map(|id| self.restore(id)).collect()
    }

    /// Gives a cgroup back what it had, and forgets it when that worked.
    pub(in crate::node::kernel) fn restore(&mut self, id: u64) -> wire::Result {
        self.note_yield(id, now_us());
        let Some(initial) = self.ledger.get(id).cloned() else {
            return wire::Result::default();
        };
        let mut with = steering(&self.fs, &mut self.writer, &self.config);
        let policies = self.policies.as_deref();
        let mut result = tenant::restore(&mut with, policies, id, &initial);
        if result.outcome() == Outcome::Gone
            && let Some(reason) = self.why_unit_keeps(id)
        {
            (result.outcome, result.reason) = (Outcome::Failed.into(), reason);
        }
        if !result.is_left() {
            // If this fails, the next agent restores what is restored already.
            let forgotten = self.ledger.forget(|entry, _| entry == id);
            if let Err(error) = forgotten {
                tracing::warn!(%error, "the ledger could not be written");
            }
        }
        result
    }
}
