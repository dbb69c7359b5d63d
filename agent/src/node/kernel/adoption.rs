// SPDX-License-Identifier: Apache-2.0
//! What an agent before this one left: it is adopted, given back, or forgotten.

use super::{KernelNode, steering, tenant};
use crate::error::Result;
use crate::wire;
use crate::wire::result::Outcome;

impl KernelNode {
    /// Removes what is kept of cgroups that are gone: entries of the ledger, and pins.
    pub(super) fn forget_gone(&mut self) -> Result<()> {
        let fs = &self.fs;
        self.ledger.forget(|id, initial| fs.id(&initial.cgroup).ok() != Some(id))?;
        self.policies.as_ref().map_or(Ok(()), |policies| policies.sweep())
    }

    /// Takes over what an agent before this one left. Tenants that are none any more get back what
    /// they had; limits below the floor are lifted.
    pub(super) fn adopt(&mut self) -> Result<()> {
        self.forget_gone()?;
        let left: Vec<u64> = self.ledger.entries().keys().copied().collect();
        for id in left {
            if let Some(tenant) = self.tenants.get(&id) {
                let initial = self.ledger.get(id);
                if initial.is_some_and(|initial| tenant.differs_from(initial)) {
                    self.adopted.push(tenant.cgroup.clone());
                }
            } else {
                self.restore(id);
            }
        }
        self.adopted.sort();
        for tenant in self.tenants.values_mut() {
            let ours = self.ledger.get(tenant.id).is_some();
            let swap_free = self.host.memory_bytes("SwapFree");
            let usage = tenant.usage(&self.fs, self.config.margin_bytes, swap_free);
            let Ok(usage) = usage else { continue };
            let mut with = steering(&self.fs, &mut self.writer, &self.config);
            if tenant.limit.check(&mut with, &usage, ours).is_err() {
                self.failed_reads += 1;
            }
        }
        Ok(())
    }

    /// Gives a cgroup back what it had, and forgets it when that worked.
    pub(super) fn restore(&mut self, id: u64) -> wire::Result {
        let Some(initial) = self.ledger.get(id).cloned() else {
            return wire::Result::default();
        };
        let mut with = steering(&self.fs, &mut self.writer, &self.config);
        let policies = self.policies.as_deref();
        let result = tenant::restore(&mut with, policies, id, &initial);
        if !matches!(result.outcome(), Outcome::Failed | Outcome::Started) {
            // If this fails, the next agent restores what is restored already.
            let forgotten = self.ledger.forget(|entry, _| entry == id);
            if let Err(error) = forgotten {
                tracing::warn!(%error, "the ledger could not be written");
            }
        }
        result
    }
}
