// SPDX-License-Identifier: Apache-2.0
//! The sampler in the kernel: loaded, attached as far as this kernel allows, and read.

use super::messages::{self, Recording};
use super::ring::{Ring, kernel_types, map_of, recursions};
use super::sampler_layout::{self as layout, Counts, Event, Losses};
use super::sampler_parts::{PARTS, Programs, Target, choose, functions};
use crate::error::{Error, Result};
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};
use std::ffi::OsStr;

/// `bpf/sampler`, compiled; empty when there was no compiler.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sampler.bpf.o"));
/// Cgroups that can be tracked.
pub const MAX_CGROUPS: u32 = 4096;

/// How much the sampler may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerSizes {
    /// Tenants whose counts are kept.
    pub max_tenants: u32,
    /// Bytes of events between two looks, a power of two.
    pub ring_bytes: u32,
}

/// Whether a part of the sampler works here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartState {
    /// What it sees.
    pub name: &'static str,
    /// Why not, when it does not.
    pub missing: Option<String>,
}

/// The sampler, attached; it goes away with this value.
pub struct Sampler {
    ring: Ring,
    links: Vec<Link>,
    object: Object,
    parts: Vec<PartState>,
    cpus: usize,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Loads the sampler and attaches what this kernel has functions for.
    ///
    /// # Errors
    /// [`Error::NotRoot`] or [`Error::Sampler`] when nothing at all can be sampled.
    pub fn open(sizes: SamplerSizes) -> Result<Self> {
        let types = kernel_types(OBJECT)?;
        let recording = Recording::start();
        let failed = |source: libbpf_rs::Error| {
            let said = messages::decisive(&recording.text(), 1).pop();
            Error::Sampler(said.unwrap_or_else(|| source.to_string()))
        };
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(failed)?;
        set_sizes(&mut open, sizes).map_err(failed)?;
        let chosen: Vec<_> = PARTS.iter().map(|part| choose(part, &types)).collect();
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let wanted = chosen.iter().any(|part| part.iter().any(|&(program, _)| program == name));
            program.set_autoload(wanted);
        }
        let object = open.load().map_err(failed)?;
        let (links, parts) = attach(&object, &chosen);
        if links.is_empty() {
            let reasons: Vec<String> = parts.into_iter().filter_map(|p| p.missing).collect();
            return Err(Error::Sampler(reasons.join("; ")));
        }
        let ring = Ring::of(&object).map_err(failed)?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(failed)?;
        Ok(Self { ring, links, object, parts, cpus })
    }

    /// What works here and what does not.
    #[must_use]
    pub fn parts(&self) -> &[PartState] {
        &self.parts
    }

    /// Tracks a cgroup as part of the tenant in `slot`, with events below `threshold`; changes the
    /// threshold of one that is tracked.
    ///
    /// # Errors
    /// What the kernel says; too many cgroups among it.
    pub fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        let value = layout::encode_entry(slot, threshold);
        self.map("cgroups")?
            .update(&cgroup_id.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|e| Error::Sampler(format!("tracking cgroup {cgroup_id}: {e}")))
    }

    /// Stops tracking a cgroup; nothing happens when it is not tracked.
    pub fn forget(&self, cgroup_id: u64) {
        if let Ok(map) = self.map("cgroups") {
            // It can only be absent already.
            let _ = map.delete(&cgroup_id.to_ne_bytes());
        }
    }

    /// Sets the counts of a slot to zero, before it is given to a tenant.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn clear(&self, slot: u32) -> Result<()> {
        let zeros = vec![vec![0; layout::COUNTS_BYTES]; self.cpus];
        self.map("counts")?
            .update_percpu(&slot.to_ne_bytes(), &zeros, MapFlags::ANY)
            .map_err(|e| Error::Sampler(format!("counts of slot {slot}: {e}")))
    }

    /// What was counted in a slot.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counts(&self, slot: u32) -> Result<Counts> {
        let found = self.map("counts")?.lookup_percpu(&slot.to_ne_bytes(), MapFlags::ANY);
        let cpus = found.map_err(|e| Error::Sampler(format!("counts of slot {slot}: {e}")))?;
        Ok(Counts::from_cpus(cpus.unwrap_or_default().iter()))
    }

    /// Takes the events that have come since the last time, oldest first.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn drain(&self) -> Result<Vec<Event>> {
        self.ring.drain()
    }

    /// What could not be seen so far.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = self.ring.losses(&self.object)?;
        losses.untracked_calls += recursions(&self.object);
        Ok(losses)
    }

    fn map(&self, name: &str) -> Result<Map<'_>> {
        map_of(&self.object, name)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // Programs go before the maps that they use.
        self.links.clear();
    }
}

pub(super) fn set_sizes(open: &mut OpenObject, sizes: SamplerSizes) -> libbpf_rs::Result<()> {
    let wanted =
        [("cgroups", MAX_CGROUPS), ("counts", sizes.max_tenants), ("events", sizes.ring_bytes)];
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, size)) = wanted.iter().find(|(wanted, _)| *wanted == name) {
            map.set_max_entries(*size)?;
        }
    }
    Ok(())
}

/// Attaches the programs of each part, all or none of them.
fn attach(object: &Object, chosen: &[Programs]) -> (Vec<Link>, Vec<PartState>) {
    let mut links = Vec::new();
    let mut states = Vec::new();
    for (part, programs) in PARTS.iter().zip(chosen) {
        let attached: std::result::Result<Vec<Link>, String> =
            programs.iter().map(|&(program, target)| attach_one(object, program, target)).collect();
        let missing = match attached {
            Ok(of_part) if !of_part.is_empty() => {
                links.extend(of_part);
                None
            }
            Ok(_) => Some(format!("{}: the kernel has no {}", part.name, functions(part))),
            Err(reason) => Some(format!("{}: {reason}", part.name)),
        };
        states.push(PartState { name: part.name, missing });
    }
    (links, states)
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
            ("tenant_counts", layout::COUNTS_BYTES),
            ("cgroup_entry", layout::ENTRY_BYTES),
            ("cpu_losses", 3 * 8),
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
        assert_eq!(maps, ["cgroups", "counts", "events", "losses", "tasks"]);
    }
}
