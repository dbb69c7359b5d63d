// SPDX-License-Identifier: Apache-2.0
//! Pages that a tenant's cache does not decide about: those that somebody else keeps in memory, and
//! those that do not exist any more.

use super::TenantCurves;
use crate::error::Result;

impl TenantCurves {
    /// Takes sampled accesses, of those that [`Self::feed_sampled`] was told of in number, to pages
    /// that are charged to somebody else: they hit whatever the policy and the size, as long as
    /// that one keeps them.
    pub fn serve(&mut self, keys: &[u64]) {
        self.events += keys.len() as u64;
        self.judged_events += keys.len() as u64;
        self.bank.serve(keys);
        self.counterfactuals.serve(keys);
        if let Some(successor) = &mut self.successor {
            successor.serve(keys);
        }
    }

    /// Pages that do not exist any more, after the accesses fed so far: their file was truncated or
    /// removed, or they were dropped on request. No cache holds them.
    ///
    /// # Errors
    /// What the simulation says.
    pub fn forget(&mut self, keys: &[u64]) -> Result<()> {
        self.bank.forget(keys)?;
        self.counterfactuals.forget(keys);
        Ok(self.successor.iter_mut().try_for_each(|successor| successor.forget(keys))?)
    }
}
