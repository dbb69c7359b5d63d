// SPDX-License-Identifier: Apache-2.0
//! Where accesses come from.

use crate::bpf::sampler::Sampler;
use crate::bpf::sampler_layout::{Counts, Event, Losses};
use crate::error::Result;

/// Where accesses come from: the sampler in the kernel, or what stands for it.
pub trait AccessSource: Send {
    /// Tracks a cgroup as part of the tenant in `slot`; sets its threshold anew.
    ///
    /// # Errors
    /// What the kernel says.
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()>;
    /// Stops tracking a cgroup.
    fn forget(&self, cgroup_id: u64);
    /// Sets the counts of a slot to zero.
    ///
    /// # Errors
    /// What the kernel says.
    fn clear(&self, slot: u32) -> Result<()>;
    /// What was counted in a slot.
    ///
    /// # Errors
    /// What the kernel says.
    fn counts(&self, slot: u32) -> Result<Counts>;
    /// Events since the last time.
    ///
    /// # Errors
    /// What the kernel says.
    fn drain(&self) -> Result<Vec<Event>>;
    /// What could not be seen so far.
    ///
    /// # Errors
    /// What the kernel says.
    fn losses(&self) -> Result<Losses>;
    /// Names of what it sees here.
    fn seen(&self) -> Vec<&'static str>;
}

impl AccessSource for Sampler {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        Sampler::track(self, cgroup_id, slot, threshold)
    }
    fn forget(&self, cgroup_id: u64) {
        Sampler::forget(self, cgroup_id);
    }
    fn clear(&self, slot: u32) -> Result<()> {
        Sampler::clear(self, slot)
    }
    fn counts(&self, slot: u32) -> Result<Counts> {
        Sampler::counts(self, slot)
    }
    fn drain(&self) -> Result<Vec<Event>> {
        Sampler::drain(self)
    }
    fn losses(&self) -> Result<Losses> {
        Sampler::losses(self)
    }
    fn seen(&self) -> Vec<&'static str> {
        self.parts().iter().filter(|part| part.missing.is_none()).map(|part| part.name).collect()
    }
}
