// SPDX-License-Identifier: Apache-2.0
//! Kernels that count and sample by themselves: requests them to watch cgroups, and reads the
//! result.

mod kernel;
mod members;
mod rest;
#[cfg(test)]
mod tests;

use super::event::Event;
use super::layout::{Counts, Losses};
use super::ring::{Ring, kernel_types, recursions};
use super::sampler::load::{SamplerSizes, set_sizes};
use super::sampler::parts::{PARTS, Target};
use super::sampler::{PartState, attach_one};
use super::source::AccessSource;
use crate::error::{Error, Result};
use libbpf_rs::btf::types as kinds;
use libbpf_rs::{Link, Object, ObjectBuilder};
use members::Members;
use std::collections::HashMap;

/// `bpf/sampler/watch.bpf.c`, compiled; empty if there was no compiler.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
/// A function that only a kernel with these counts has.
const WATCH: &str = "bpf_cache_ext_watch";
/// Programs that report the accesses sampled by the kernel, and pages that are removed.
const ATTACHED: [(&str, Target); 3] = [
    ("sampled", Target::Tracepoint("cache_ext_access")),
    ("folio_removed", Target::Function("__filemap_remove_folio")),
    ("folios_removed", Target::Function("delete_from_page_cache_batch")),
];

/// The kernel's watching of cgroups. It ends when this value is dropped.
///
/// A cgroup has a single watch, whose threshold and counts belong to the last process that
/// requested it. A process beside an agent therefore uses the [`super::sampler::Sampler`].
pub struct Watch {
    ring: Ring,
    links: Vec<Link>,
    members: Members<Object>,
    parts: Vec<PartState>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("members", &self.members).finish_non_exhaustive()
    }
}

impl Watch {
    /// Prepares to watch cgroups.
    ///
    /// # Errors
    /// Returns [`Error::NotRoot`], or [`Error::Sampler`] if this kernel does not count by itself.
    pub fn open(sizes: SamplerSizes) -> Result<Self> {
        let types = kernel_types(OBJECT)?;
        if types.type_by_name::<kinds::Func<'_>>(WATCH).is_none() {
            return Err(Error::Sampler(format!("the kernel has no {WATCH}()")));
        }
        let failed = |source: libbpf_rs::Error| Error::Sampler(format!("watching: {source}"));
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(failed)?;
        set_sizes(&mut open, sizes).map_err(failed)?;
        let object = open.load().map_err(failed)?;
        let attach = |&(program, target): &(_, _)| attach_one(&object, program, target);
        let links = ATTACHED.iter().map(attach).collect::<std::result::Result<Vec<_>, _>>();
        let links = links.map_err(Error::Sampler)?;
        let ring = Ring::of(&object).map_err(failed)?;
        let parts = PARTS.iter().map(|part| PartState { name: part.name, missing: None });
        let parts = parts.collect();
        Ok(Self { ring, links, members: Members::new(object), parts })
    }

    /// As [`Watch::open`], for a recording, which must be complete: the end of large reads is
    /// looked at from the beginning, and tracking a cgroup that another process watches is an
    /// error.
    ///
    /// # Errors
    /// The errors of [`Watch::open`].
    pub fn open_alone(sizes: SamplerSizes) -> Result<Self> {
        let mut watch = Self::open(sizes)?;
        watch.members.be_alone();
        Ok(watch)
    }
}

impl AccessSource for Watch {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        self.members.track(cgroup_id, slot, threshold)
    }

    fn forget(&self, cgroup_id: u64) {
        self.members.forget(cgroup_id);
    }

    fn clear(&self, slot: u32) -> Result<()> {
        self.members.clear(slot);
        Ok(())
    }

    fn counts(&self) -> Result<HashMap<u32, Counts>> {
        self.members.counts()
    }

    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        self.ring.drain(take)
    }

    fn losses(&self) -> Result<Losses> {
        let mut losses = self.ring.losses(&self.members.kernel)?;
        losses.untracked_calls += recursions(&self.members.kernel);
        losses.unsampled_pages += self.members.unsampled_pages();
        Ok(losses)
    }

    fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        self.members.losses_of(cgroup_id)
    }

    fn parts(&self) -> &[PartState] {
        &self.parts
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.members.end();
        self.links.clear();
    }
}
