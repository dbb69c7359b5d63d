// SPDX-License-Identifier: Apache-2.0
//! The sources of sampled accesses.

use super::event::Event;
use super::layout::{Counts, Losses};
use super::sampler::load::SamplerSizes;
use super::sampler::{PartState, Sampler};
use super::watch::Watch;
use crate::error::Result;
use std::collections::HashMap;

/// Opens the source: this kernel itself if it counts and samples, as that costs least, otherwise
/// the sampler.
///
/// # Errors
/// The errors of [`Sampler::open`].
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

/// A source of counts and sampled accesses: the kernel itself, the sampler, or a substitute for
/// tests.
pub trait AccessSource: Send {
    /// Tracks a cgroup as part of the tenant in `slot`, whose counts are maintained from then on.
    /// For a tracked cgroup, changes the threshold.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()>;
    /// Stops tracking a cgroup.
    fn forget(&self, cgroup_id: u64);
    /// Deletes the counts of a slot and frees their memory.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn clear(&self, slot: u32) -> Result<()>;
    /// The counts of each slot in which a cgroup was tracked, read by few system calls.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn counts(&self) -> Result<HashMap<u32, Counts>>;
    /// Passes the events that arrived since the last call to `take`, oldest first, in batches.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()>;
    /// The losses so far, of all cgroups.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn losses(&self) -> Result<Losses>;
    /// The losses of a tracked cgroup so far.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn losses_of(&self, cgroup_id: u64) -> Result<Losses>;
    /// The parts of the source, and whether each works here.
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
