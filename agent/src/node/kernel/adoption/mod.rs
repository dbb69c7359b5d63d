// SPDX-License-Identifier: Apache-2.0
//! What an agent before this one left: it is adopted, given back, or forgotten.

pub mod ledger;

use crate::cgroup;
use crate::managers::Managers;
use crate::node::kernel::adoption::ledger::{Initial, Ledger};
use crate::node::kernel::limits::contest::Contest;
use crate::node::kernel::tenant::Tenant;
use crate::node::kernel::{KernelNode, now_us, steering, tenant};
use crate::wire;
use crate::wire::DEFAULT_POLICY;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// systemd is waited for no longer for a unit that is gone.
const UNIT_PATIENCE: Duration = Duration::from_millis(500);

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
    /// removed does no harm: ids are not used again, and the next agent tries once more.
    pub(in crate::node::kernel) fn forget_gone(&mut self) {
        let kept = self.give_back_units();
        let fs = &self.fs;
        let is_gone = |id: u64, initial: &Initial| fs.id(&initial.cgroup).ok() != Some(id);
        let forgotten =
            self.ledger.forget(|id, initial| is_gone(id, initial) && !kept.contains(&id));
        let swept = self.policies.as_ref().map_or(Ok(()), |policies| policies.sweep());
        for error in [forgotten.err(), swept.err()].into_iter().flatten() {
            self.failed_reads += 1;
            tracing::warn!(%error, "what is kept of cgroups that are gone was not removed");
        }
    }

    /// systemd begins a unit whose cgroup is gone with the limit that was set of it: it gets back the
    /// one that it had. Those of whom that has yet to be done, as systemd does not answer.
    fn give_back_units(&self) -> BTreeSet<u64> {
        let Some(units) = self.managers.as_ref().and_then(Managers::units) else {
            return BTreeSet::new();
        };
        let entries = self.ledger.entries();
        let is_gone = |id: u64, initial: &Initial| {
            let now = self.fs.id(&initial.cgroup).ok();
            // What the one of this name has now is not that of the one before it.
            let is_free = now != Some(id) && now.is_none_or(|now| !entries.contains_key(&now));
            // What was yielded is others'.
            is_free && initial.yielded_us.is_none()
        };
        let mut left = BTreeSet::new();
        for (&id, initial) in entries.iter().filter(|&(&id, initial)| is_gone(id, initial)) {
            // While one is not answered the others would not be, either.
            if !left.is_empty() {
                left.insert(id);
                continue;
            }
            match units.forget(&initial.cgroup, initial.high_bytes, UNIT_PATIENCE) {
                Ok(true) => {
                    tracing::info!(cgroup = %initial.cgroup, "is gone; its unit got back its limit")
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(cgroup = %initial.cgroup, "its unit keeps the limit yet: {error}");
                    left.insert(id);
                }
            }
        }
        left
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
                self.strangers.insert(id, String::new());
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

    /// Gives a cgroup back what it had, and forgets it when that worked.
    pub(in crate::node::kernel) fn restore(&mut self, id: u64) -> wire::Result {
        self.note_yield(id, now_us());
        let Some(initial) = self.ledger.get(id).cloned() else {
            return wire::Result::default();
        };
        let mut with = steering(&self.fs, &mut self.writer, &self.config);
        let policies = self.policies.as_deref();
        let result = tenant::restore(&mut with, policies, id, &initial);
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
