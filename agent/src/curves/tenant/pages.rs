// SPDX-License-Identifier: Apache-2.0
//! Pages that a tenant's cache does not decide about: those that another cgroup keeps in memory,
//! and those that no longer exist.

use super::TenantCurves;
use crate::error::Result;

impl TenantCurves {
    /// Takes sampled accesses to pages that are charged to another cgroup. They are part of the
    /// accesses counted by [`Self::feed_sampled`]. They hit under any policy and size while the
    /// other cgroup keeps the pages.
    pub fn serve(&mut self, keys: &[u64]) {
        self.events += keys.len() as u64;
        self.judged_events += keys.len() as u64;
        self.bank.serve(keys);
        self.counterfactuals.serve(keys);
        if let Some(successor) = &mut self.successor {
            successor.serve(keys);
        }
    }

    /// Removes pages that no longer exist after the accesses fed so far: their file was truncated
    /// or removed, or they were dropped on request. No cache contains them.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub fn forget(&mut self, keys: &[u64]) -> Result<()> {
        self.bank.forget(keys)?;
        self.counterfactuals.forget(keys);
        Ok(self.successor.iter_mut().try_for_each(|successor| successor.forget(keys))?)
    }
}
