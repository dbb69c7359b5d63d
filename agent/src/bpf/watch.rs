// SPDX-License-Identifier: Apache-2.0
//! Kernels that count and sample by themselves: told which cgroups, and read.

use super::ring::{Ring, kernel_types, map_of, recursions};
use super::sampler::{PartState, SamplerSizes, attach_one, set_sizes};
use super::sampler_layout::{self as layout, Counts, Event, Losses};
use super::sampler_parts::{PARTS, Target};
use super::source::AccessSource;
use crate::error::{Error, Result};
use libbpf_rs::btf::types as kinds;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;

/// `bpf/sampler/watch.bpf.c`, compiled; empty when there was no compiler.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
/// The function that a kernel with the counts has.
const WATCH: &str = "bpf_cache_ext_watch";
/// The program that reports what the kernel sampled.
const SAMPLED: &str = "sampled";

/// The watching of cgroups by the kernel. It ends with this value.
///
/// A cgroup has one watch, whose threshold and counts are whoever's asked last: what runs beside
/// an agent takes the [`super::sampler::Sampler`].
pub struct Watch {
    ring: Ring,
    links: Vec<Link>,
    object: Object,
    parts: Vec<PartState>,
    slots: RefCell<Slots>,
}

/// What was read last. The kernel's counts of a cgroup go with it.
#[derive(Debug, Default)]
struct Slots {
    /// Slot and last counts of each cgroup.
    members: BTreeMap<u64, (u32, Counts)>,
    /// Of each slot, the counts of cgroups that left it.
    left: HashMap<u32, Counts>,
    unsampled_pages: HashMap<u64, u64>,
    unsampled_left: u64,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Watch {
    /// Gets ready to have cgroups watched.
    ///
    /// # Errors
    /// [`Error::NotRoot`], or [`Error::Sampler`] when this kernel does not count by itself.
    pub fn open(sizes: SamplerSizes) -> Result<Self> {
        let types = kernel_types(OBJECT)?;
        if types.type_by_name::<kinds::Func<'_>>(WATCH).is_none() {
            return Err(Error::Sampler(format!("the kernel has no {WATCH}()")));
        }
        let failed = |source: libbpf_rs::Error| Error::Sampler(format!("watching: {source}"));
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(failed)?;
        set_sizes(&mut open, sizes).map_err(failed)?;
        let object = open.load().map_err(failed)?;
        let target = Target::Tracepoint("cache_ext_access");
        let link = attach_one(&object, SAMPLED, target).map_err(Error::Sampler)?;
        let ring = Ring::of(&object).map_err(failed)?;
        let parts = PARTS.iter().map(|part| PartState { name: part.name, missing: None });
        let (links, parts) = (vec![link], parts.collect());
        Ok(Self { ring, links, object, parts, slots: RefCell::default() })
    }

    /// Whether somebody has the cgroup watched.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn is_watched(&self, cgroup_id: u64) -> Result<bool> {
        Ok(self.read(cgroup_id)?.is_some())
    }

    /// What the kernel counted of a cgroup; `None` when it does not watch it (any more).
    fn read(&self, cgroup_id: u64) -> Result<Option<(Counts, u64)>> {
        match call(&self.object, "read_counts", cgroup_id, 0)? {
            Ok(()) => {
                let answer = map_of(&self.object, "answer")?;
                let bytes = answer.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
                let bytes = bytes.map_err(|e| Error::Sampler(format!("counts: {e}")))?;
                Ok(bytes.and_then(|bytes| Counts::from_kernel(&bytes)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::Sampler(format!("counts of cgroup {cgroup_id}: {error}"))),
        }
    }

    /// Reads the counts of a cgroup once more, as far as there are any.
    fn refresh(&self, cgroup_id: u64) -> Result<()> {
        if let Some((counts, unsampled_pages)) = self.read(cgroup_id)? {
            let mut slots = self.slots.borrow_mut();
            if let Some(member) = slots.members.get_mut(&cgroup_id) {
                member.1 = counts;
            }
            slots.unsampled_pages.insert(cgroup_id, unsampled_pages);
        }
        Ok(())
    }

    fn watch(&self, cgroup_id: u64, threshold: u64) -> Result<()> {
        let watched = call(&self.object, "watch", cgroup_id, threshold)?;
        watched.map_err(|e| Error::Sampler(format!("tracking cgroup {cgroup_id}: {e}")))
    }
}

impl AccessSource for Watch {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        let of = self.slots.borrow().members.get(&cgroup_id).map(|member| member.0);
        if of == Some(slot) {
            return self.watch(cgroup_id, threshold);
        }
        // What an agent before this one, or another tenant, had counted is not this tenant's.
        self.forget(cgroup_id);
        self.watch(cgroup_id, threshold)?;
        self.slots.borrow_mut().members.insert(cgroup_id, (slot, Counts::default()));
        Ok(())
    }

    fn forget(&self, cgroup_id: u64) {
        // It can only be gone already, with what it counted since the last look.
        let _ = self.refresh(cgroup_id);
        let _ = call(&self.object, "unwatch", cgroup_id, 0);
        let mut slots = self.slots.borrow_mut();
        if let Some((slot, counts)) = slots.members.remove(&cgroup_id) {
            *slots.left.entry(slot).or_default() += &counts;
        }
        slots.unsampled_left += slots.unsampled_pages.remove(&cgroup_id).unwrap_or(0);
    }

    fn clear(&self, slot: u32) -> Result<()> {
        self.slots.borrow_mut().left.remove(&slot);
        Ok(())
    }

    fn counts(&self, slot: u32) -> Result<Counts> {
        let of_slot = |(&id, member): (&u64, &(u32, Counts))| (member.0 == slot).then_some(id);
        let ids: Vec<u64> = self.slots.borrow().members.iter().filter_map(of_slot).collect();
        ids.iter().try_for_each(|&id| self.refresh(id))?;
        let slots = self.slots.borrow();
        let mut counts = slots.left.get(&slot).cloned().unwrap_or_default();
        for (_, of_member) in slots.members.values().filter(|member| member.0 == slot) {
            counts += of_member;
        }
        Ok(counts)
    }

    fn drain(&self) -> Result<Vec<Event>> {
        self.ring.drain()
    }

    fn losses(&self) -> Result<Losses> {
        let mut losses = self.ring.losses(&self.object)?;
        losses.untracked_calls += recursions(&self.object);
        let slots = self.slots.borrow();
        losses.unsampled_pages +=
            slots.unsampled_left + slots.unsampled_pages.values().sum::<u64>();
        Ok(losses)
    }

    fn parts(&self) -> &[PartState] {
        &self.parts
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for &cgroup_id in self.slots.borrow().members.keys() {
            // What cannot be said now is said by the next agent.
            let _ = call(&self.object, "unwatch", cgroup_id, 0);
        }
        self.links.clear();
    }
}

/// Runs a program of the object; what the kernel's function said to it is the inner result.
fn call(object: &Object, name: &str, cgroup_id: u64, threshold: u64) -> Result<io::Result<()>> {
    let program = object.progs_mut().find(|program| program.name() == OsStr::new(name));
    let program = program.ok_or_else(|| Error::Sampler(format!("no program {name}")))?;
    let mut request = layout::encode_request(cgroup_id, threshold);
    let input = ProgramInput { context_in: Some(&mut request), ..Default::default() };
    let output = program.test_run(input).map_err(|e| Error::Sampler(format!("{name}: {e}")))?;
    Ok(super::checked(output.return_value.cast_signed()).map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::btf::{Btf, HasSize};

    #[test]
    fn layouts_and_programs_are_those_of_the_object_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("watch.bpf.o");
        std::fs::write(&file, OBJECT).unwrap();
        let types = Btf::from_path(&file).unwrap();
        for (name, bytes) in [
            ("cache_ext_counts", layout::KERNEL_COUNTS_BYTES),
            ("watch_request", layout::REQUEST_BYTES),
        ] {
            let found = types.type_by_name::<kinds::Struct<'_>>(name).unwrap();
            assert_eq!(found.size(), bytes, "{name}");
        }
        let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut programs: Vec<String> =
            open.progs().map(|p| p.name().to_string_lossy().into_owned()).collect();
        programs.sort();
        assert_eq!(programs, ["read_counts", SAMPLED, "unwatch", "watch"]);
    }
}
