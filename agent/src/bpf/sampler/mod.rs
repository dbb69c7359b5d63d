// SPDX-License-Identifier: Apache-2.0
//! The sampler's BPF programs: loaded, attached to the functions that this kernel has, and read.

mod counted;
pub mod load;
pub mod parts;

use super::event::Event;
use super::layout::{Counts, Losses};
use super::ring::{Ring, kernel_types, recursions};
use super::shares;
use crate::error::{Error, Result};
use libbpf_rs::{Link, Object};
use load::{SamplerSizes, load};
use parts::{PARTS, Part, Programs, Target, choose, functions};
use std::collections::HashMap;
use std::ffi::OsStr;

/// `bpf/sampler`, compiled; empty if there was no compiler.
pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sampler.bpf.o"));

/// Whether a part of the sampler works here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartState {
    /// What the part observes.
    pub name: &'static str,
    /// The reason why it does not work; `None` if it works.
    pub missing: Option<String>,
}

/// The attached sampler. It is detached when this value is dropped.
pub struct Sampler {
    ring: Ring,
    links: Vec<Link>,
    object: Object,
    parts: Vec<PartState>,
    counted: counted::Parts,
    cpus: usize,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Loads the sampler and attaches the parts that this kernel has functions for.
    ///
    /// # Errors
    /// Returns [`Error::NotRoot`] or [`Error::Sampler`] if nothing at all can be sampled.
    pub fn open(sizes: SamplerSizes) -> Result<Self> {
        let types = kernel_types(OBJECT)?;
        let failed = |source: libbpf_rs::Error| Error::Sampler(source.to_string());
        let chosen: Vec<_> = PARTS.iter().map(|part| choose(part, &types)).collect();
        let (object, refused) = load(OBJECT, sizes, &chosen)?;
        let (links, parts) = attach(&object, &chosen, &refused);
        if links.is_empty() {
            let reasons: Vec<String> = parts.into_iter().filter_map(|p| p.missing).collect();
            return Err(Error::Sampler(reasons.join("; ")));
        }
        let ring = Ring::of(&object).map_err(failed)?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed)?;
        Ok(Self { ring, links, object, parts, counted: counted::Parts::default(), cpus })
    }

    /// The parts, and whether each works here.
    #[must_use]
    pub fn parts(&self) -> &[PartState] {
        &self.parts
    }

    /// Tracks a cgroup as part of the tenant in `slot`, with events for pages whose hash is below
    /// `threshold`. For a tracked cgroup, changes the threshold.
    ///
    /// # Errors
    /// Returns the kernel's error, for example because of too many cgroups.
    pub fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        self.counted.open(&self.object, self.cpus, slot)?;
        shares::track(&self.object, cgroup_id, slot, threshold)
    }

    /// Stops tracking a cgroup. Does nothing if it is not tracked.
    pub fn forget(&self, cgroup_id: u64) {
        shares::close(&self.object, cgroup_id);
    }

    /// Deletes the counts of a slot and frees their memory.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn clear(&self, slot: u32) -> Result<()> {
        self.counted.close(&self.object, slot)
    }

    /// The counts of each slot in which a cgroup was tracked.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn counts(&self) -> Result<HashMap<u32, Counts>> {
        self.counted.read(self.cpus)
    }

    /// Passes the events that arrived since the last call to `take`, oldest first, in batches.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        self.ring.drain(take)
    }

    /// The losses so far, of all cgroups.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = self.ring.losses(&self.object)?;
        losses.untracked_calls += recursions(&self.object);
        Ok(losses)
    }

    /// The losses of a tracked cgroup so far.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        Ok(shares::read(&self.object, cgroup_id)?.0)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // Programs must be detached before the maps that they use are dropped.
        self.links.clear();
    }
}

/// Attaches the programs of each part, all or none of them. `refused` has the reason for each part
/// that was not loaded.
fn attach(
    object: &Object,
    chosen: &[Programs],
    refused: &[Option<String>],
) -> (Vec<Link>, Vec<PartState>) {
    let mut links = Vec::new();
    let mut states = Vec::new();
    for ((part, programs), refused) in PARTS.iter().zip(chosen).zip(refused) {
        let missing = match attach_part(object, part, programs, refused.as_deref()) {
            Ok(of_part) => {
                links.extend(of_part);
                None
            }
            Err(reason) => Some(format!("{}: {reason}", part.name)),
        };
        states.push(PartState { name: part.name, missing });
    }
    (links, states)
}

fn attach_part(
    object: &Object,
    part: &Part,
    programs: Programs,
    refused: Option<&str>,
) -> std::result::Result<Vec<Link>, String> {
    if programs.is_empty() {
        return Err(format!("the kernel has no {}", functions(part)));
    }
    if let Some(reason) = refused {
        return Err(format!("the kernel refuses {reason}"));
    }
    programs.iter().map(|&(program, target)| attach_one(object, program, target)).collect()
}

pub(super) fn attach_one(
    object: &Object,
    name: &str,
    target: Target,
) -> std::result::Result<Link, String> {
    let mut programs = object.progs_mut();
    let program = programs.find(|program| program.name() == OsStr::new(name));
    let program = program.ok_or_else(|| format!("no program {name}"))?;
    program.attach().map_err(|e| format!("{target:?}: {e}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bpf::layout;
    use libbpf_rs::ObjectBuilder;
    use libbpf_rs::btf::{Btf, HasSize, types as kinds};
    use std::path::Path;

    pub fn types(dir: &Path) -> Btf<'static> {
        let file = dir.join("sampler.bpf.o");
        std::fs::write(&file, OBJECT).unwrap();
        Btf::from_path(&file).unwrap()
    }

    #[test]
    fn layouts_are_those_of_the_object_file() {
        let dir = tempfile::tempdir().unwrap();
        let types = types(dir.path());
        for (name, bytes) in [
            ("cgroup_entry", layout::ENTRY_BYTES),
            ("losses", layout::LOSSES_BYTES),
            ("cgroup_share", layout::SHARE_BYTES),
        ] {
            let found = types.type_by_name::<kinds::Struct<'_>>(name).unwrap();
            assert_eq!(found.size(), bytes, "{name}");
        }
    }

    #[test]
    fn each_program_of_the_object_file_is_a_part_and_the_other_way_round() {
        let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut there: Vec<String> =
            open.progs().map(|p| p.name().to_string_lossy().into_owned()).collect();
        let programs = PARTS.iter().flat_map(|part| part.alternatives.iter());
        let mut known: Vec<String> =
            programs.flat_map(|programs| programs.iter().map(|p| p.0.to_owned())).collect();
        there.sort();
        known.sort();
        assert_eq!(there, known);
        let mut maps: Vec<String> =
            open.maps().map(|m| m.name().to_string_lossy().into_owned()).collect();
        maps.sort();
        assert_eq!(maps, ["cgroups", "counts", "events", "losses", "shares", "tasks"]);
    }
}
