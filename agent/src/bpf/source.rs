// SPDX-License-Identifier: Apache-2.0
//! Where accesses come from.

use super::event::Event;
use super::sampler::{PartState, Sampler};
use super::sampler_layout::{Counts, Losses};
use super::sampler_load::SamplerSizes;
use super::watch::Watch;
use crate::error::Result;
use std::collections::HashMap;

/// What counts and samples: this kernel itself if it can, as that costs least; else the sampler.
///
/// # Errors
/// Those of [`Sampler::open`].
pub fn open(sizes: SamplerSizes) -> Result<Box<dyn AccessSource>> {
    let reason = match Watch::open(sizes) {
        Ok(watch) => return Ok(Box::new(watch)),
        Err(reason) => reason,
    };
    tracing::debug!(%reason, "the kernel does not count by itself");
    let sampler = Sampler::open(sizes)?;
    for missing in sampler.parts().iter().filter_map(|part| part.missing.as_deref()) {
        tracing::warn!("not counted on this kernel: {missing}");
    }
    Ok(Box::new(sampler))
}

/// Where accesses come from: the kernel's own counts, the sampler, or what stands for them.
pub trait AccessSource: Send {
    /// Tracks a cgroup as part of the tenant in `slot`, whose counts are kept from then on; sets its
    /// threshold again.
    ///
    /// # Errors
    /// What the kernel says.
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()>;
    /// Stops tracking a cgroup.
    fn forget(&self, cgroup_id: u64);
    /// Forgets what was counted in a slot, with the memory that it took.
    ///
    /// # Errors
    /// What the kernel says.
    fn clear(&self, slot: u32) -> Result<()>;
    /// What was counted in each slot in which a cgroup was tracked, all by few system calls.
    ///
    /// # Errors
    /// What the kernel says.
    fn counts(&self) -> Result<HashMap<u32, Counts>>;
    /// Gives the events that have come since the last time to `take`, oldest first, in batches.
    ///
    /// # Errors
    /// What the kernel says.
    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()>;
    /// What could not be seen so far.
    ///
    /// # Errors
    /// What the kernel says.
    fn losses(&self) -> Result<Losses>;
    /// What could not be seen of a tracked cgroup so far.
    ///
    /// # Errors
    /// What the kernel says.
    fn losses_of(&self, cgroup_id: u64) -> Result<Losses>;
    /// What it sees here and what it does not.
    fn parts(&self) -> &[PartState];
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
    fn counts(&self) -> Result<HashMap<u32, Counts>> {
        Sampler::counts(self)
    }
    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        Sampler::drain(self, take)
    }
    fn losses(&self) -> Result<Losses> {
        Sampler::losses(self)
    }
    fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        Sampler::losses_of(self, cgroup_id)
    }
    fn parts(&self) -> &[PartState] {
        Sampler::parts(self)
    }
}
