// SPDX-License-Identifier: Apache-2.0
//! Kernels that count and sample by themselves: requests them to watch cgroups, and reads the
//! result.

use super::event::Event;
use super::ring::{Ring, kernel_types, map_of, recursions};
use super::sampler::{PartState, attach_one};
use super::sampler_layout::{self as layout, Counts, Losses};
use super::sampler_load::{SamplerSizes, set_sizes};
use super::sampler_parts::{PARTS, Target};
use super::shares;
use super::source::AccessSource;
use super::watch_rest::Rest;
use crate::error::{Error, Result};
use libbpf_rs::btf::types as kinds;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;

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
/// The program that looks at the part of large reads that the kernel leaves out.
const REST: &str = "read_rest";

/// The kernel's watching of cgroups. It ends when this value is dropped.
///
/// A cgroup has a single watch, whose threshold and counts belong to the last process that
/// requested it. A process beside an agent therefore uses the [`super::sampler::Sampler`].
pub struct Watch {
    ring: Ring,
    links: Vec<Link>,
    object: Object,
    parts: Vec<PartState>,
    slots: RefCell<Slots>,
    rest: RefCell<Rest<Link>>,
    alone: bool,
}

/// The kernel's counts of a cgroup, and the number of pages left out of its sample; `None` if the
/// kernel does not watch the cgroup.
type Read = Result<Option<(Counts, u64)>>;

#[derive(Debug, Default)]
struct Slots {
    members: BTreeMap<u64, Member>,
    /// For each slot, the counts of cgroups that left it.
    left: HashMap<u32, Counts>,
    unsampled_left: u64,
}

/// A watched cgroup with its counts as last read: the kernel deletes its own when the cgroup is
/// removed.
#[derive(Debug, Clone, Default)]
struct Member {
    slot: u32,
    threshold: u64,
    counts: Counts,
    /// Pages that the kernel left out of its sample. `rest_pages` is the number of those that the
    /// agent's program looked at.
    left_out_pages: u64,
    rest_pages: u64,
}

impl Member {
    fn unsampled_pages(&self) -> u64 {
        self.left_out_pages.saturating_sub(self.rest_pages)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("slots", &self.slots).finish_non_exhaustive()
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
        let (slots, rest) = (RefCell::default(), RefCell::default());
        Ok(Self { ring, links, object, parts, slots, rest, alone: false })
    }

    /// As [`Watch::open`], for a recording, which must be complete: the end of large reads is
    /// looked at from the beginning, and tracking a cgroup that another process watches is an
    /// error.
    ///
    /// # Errors
    /// The errors of [`Watch::open`].
    pub fn open_alone(sizes: SamplerSizes) -> Result<Self> {
        let mut watch = Self::open(sizes)?;
        watch.alone = true;
        watch.rest.borrow_mut().begin(|| watch.attach_rest());
        Ok(watch)
    }

    fn attach_rest(&self) -> std::result::Result<Link, String> {
        attach_one(&self.object, REST, Target::Function("__cache_ext_read_end"))
    }

    /// Reads the kernel's counts of up to [`layout::READ_AT_ONCE`] cgroups; `None` for each one
    /// that it does not watch (any more).
    fn read(&self, cgroup_ids: &[u64]) -> Result<Vec<Read>> {
        let failed = |e: &dyn std::fmt::Display| Error::Sampler(format!("counts: {e}"));
        let (zero, request) = (0_u32.to_ne_bytes(), layout::encode_counts_request(cgroup_ids));
        let asked = map_of(&self.object, "asked")?.update(&zero, &request, MapFlags::ANY);
        asked.map_err(|e| failed(&e))?;
        call(&self.object, "read_counts", 0, 0)?.map_err(|e| failed(&e))?;
        let answer = map_of(&self.object, "answer")?.lookup(&zero, MapFlags::ANY);
        let answer = answer.map_err(|e| failed(&e))?.unwrap_or_default();
        let told = |(place, id): (usize, &u64)| match layout::decode_counts_answer(&answer, place) {
            Some(Ok(counts)) => Ok(Some(counts)),
            Some(Err(number)) if is_without(&io::Error::from_raw_os_error(-number)) => Ok(None),
            Some(Err(number)) => {
                let error = io::Error::from_raw_os_error(-number);
                Err(Error::Sampler(format!("counts of cgroup {id}: {error}")))
            }
            None => Err(Error::Sampler(format!("counts of cgroup {id}: too short an answer"))),
        };
        Ok(cgroup_ids.iter().enumerate().map(told).collect())
    }

    fn read_one(&self, cgroup_id: u64) -> Read {
        self.read(&[cgroup_id])?.pop().unwrap_or(Ok(None))
    }

    /// Reads the counts of up to [`layout::READ_AT_ONCE`] members again. Members that could not be
    /// read are added to `unread`.
    fn refresh_all(&self, cgroup_ids: &[u64], unread: &mut Vec<u64>) -> Result<()> {
        let rest: Vec<_> = cgroup_ids.iter().map(|&id| self.rest_pages(id)).collect();
        for ((&id, rest), read) in cgroup_ids.iter().zip(rest).zip(self.read(cgroup_ids)?) {
            let refreshed = rest.and_then(|rest_pages| self.refresh(id, rest_pages, read?));
            if let Err(error) = refreshed {
                tracing::debug!(%error, "not read");
                unread.push(id);
            }
        }
        Ok(())
    }

    /// Stores the counts of a member that were read. If the watch is gone but its cgroup is not, as
    /// when the memory controller was turned off and on again, requests a new watch.
    fn refresh(
        &self,
        cgroup_id: u64,
        mut rest_pages: u64,
        read: Option<(Counts, u64)>,
    ) -> Result<()> {
        let mut slots = self.slots.borrow_mut();
        let Slots { members, left, unsampled_left } = &mut *slots;
        let Some(member) = members.get_mut(&cgroup_id) else { return Ok(()) };
        let (counts, left_out_pages) = read.clone().unwrap_or_default();
        if counts.is_before(&member.counts) || left_out_pages < member.left_out_pages {
            *left.entry(member.slot).or_default() += &member.counts;
            *unsampled_left += member.unsampled_pages();
            shares::close(&self.object, cgroup_id);
            shares::track(&self.object, cgroup_id, member.slot, member.threshold)?;
            rest_pages = 0;
        }
        (member.counts, member.left_out_pages) = (counts, left_out_pages);
        member.rest_pages = rest_pages;
        let threshold = member.threshold;
        drop(slots);
        if read.is_none() {
            self.watch(cgroup_id, threshold)?;
        }
        Ok(())
    }

    /// Requests the watch of a cgroup. Returns whether the kernel watches it now; it does not if
    /// the cgroup is gone, or has no memory controller of its own, so that its accesses count for
    /// the cgroup above.
    fn watch(&self, cgroup_id: u64, threshold: u64) -> Result<bool> {
        match call(&self.object, "watch", cgroup_id, threshold)? {
            Ok(()) => Ok(true),
            Err(error) if is_without(&error) => Ok(false),
            Err(error) => Err(Error::Sampler(format!("tracking cgroup {cgroup_id}: {error}"))),
        }
    }

    /// Pages that the agent's program looked at in place of the kernel. This must be read before
    /// the kernel's own counts, in which these pages appear a moment later.
    fn rest_pages(&self, cgroup_id: u64) -> Result<u64> {
        match self.rest.borrow().used() {
            true => Ok(shares::read(&self.object, cgroup_id)?.1),
            false => Ok(0),
        }
    }
}

/// Whether an error means that there is no such cgroup, or none with a memory controller.
fn is_without(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP))
}

impl AccessSource for Watch {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        if let Some(member) = self.slots.borrow_mut().members.get_mut(&cgroup_id)
            && member.slot == slot
        {
            member.threshold = threshold;
            shares::track(&self.object, cgroup_id, slot, threshold)?;
            return self.watch(cgroup_id, threshold).map(|_| ());
        }
        if self.alone && self.read_one(cgroup_id)?.is_some() {
            let advice = "watched for another program; record it with --counting programs";
            return Err(Error::Sampler(format!("cgroup {cgroup_id}: {advice}")));
        }
        // The counts that an earlier agent or another tenant left must not count for this tenant.
        self.forget(cgroup_id);
        shares::track(&self.object, cgroup_id, slot, threshold)?;
        if self.watch(cgroup_id, threshold)? {
            let member = Member { slot, threshold, ..Member::default() };
            self.slots.borrow_mut().members.insert(cgroup_id, member);
        }
        Ok(())
    }

    fn forget(&self, cgroup_id: u64) {
        // If this fails, the cgroup is gone already, with its counts since the last read.
        let rest_pages = self.rest_pages(cgroup_id).unwrap_or(0);
        if let Ok(Some((counts, left_out_pages))) = self.read_one(cgroup_id)
            && let Some(member) = self.slots.borrow_mut().members.get_mut(&cgroup_id)
            && !counts.is_before(&member.counts)
        {
            (member.counts, member.left_out_pages) = (counts, left_out_pages);
            member.rest_pages = rest_pages;
        }
        let _ = call(&self.object, "unwatch", cgroup_id, 0);
        shares::close(&self.object, cgroup_id);
        let mut slots = self.slots.borrow_mut();
        if let Some(member) = slots.members.remove(&cgroup_id) {
            *slots.left.entry(member.slot).or_default() += &member.counts;
            slots.unsampled_left += member.unsampled_pages();
        }
    }

    fn clear(&self, slot: u32) -> Result<()> {
        self.slots.borrow_mut().left.remove(&slot);
        Ok(())
    }

    fn counts(&self) -> Result<HashMap<u32, Counts>> {
        let ids: Vec<u64> = self.slots.borrow().members.keys().copied().collect();
        let mut unread = Vec::new();
        for ids in ids.chunks(layout::READ_AT_ONCE) {
            self.refresh_all(ids, &mut unread)?;
        }
        let slots = self.slots.borrow();
        let mut counts = slots.left.clone();
        for member in slots.members.values() {
            *counts.entry(member.slot).or_default() += &member.counts;
        }
        for member in unread.iter().filter_map(|id| slots.members.get(id)) {
            counts.remove(&member.slot);
        }
        Ok(counts)
    }

    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        self.ring.drain(take)
    }

    fn losses(&self) -> Result<Losses> {
        let mut losses = self.ring.losses(&self.object)?;
        losses.untracked_calls += recursions(&self.object);
        let slots = self.slots.borrow();
        losses.unsampled_pages += slots.unsampled_left;
        losses.unsampled_pages += slots.members.values().map(Member::unsampled_pages).sum::<u64>();
        let left_out = slots.members.values().map(|member| member.left_out_pages).sum::<u64>();
        self.rest.borrow_mut().follow(left_out, || self.attach_rest());
        Ok(losses)
    }

    fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        let (mut losses, _) = shares::read(&self.object, cgroup_id)?;
        let slots = self.slots.borrow();
        losses.unsampled_pages += slots.members.get(&cgroup_id).map_or(0, Member::unsampled_pages);
        Ok(losses)
    }

    fn parts(&self) -> &[PartState] {
        &self.parts
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for &cgroup_id in self.slots.borrow().members.keys() {
            // If this fails, the next agent ends the watch.
            let _ = call(&self.object, "unwatch", cgroup_id, 0);
        }
        self.links.clear();
        drop(self.rest.take());
    }
}

/// Runs a program of the object. The inner result is that of the kernel's function.
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
            ("tenant_counts", layout::COUNTS_BYTES),
            ("watch_request", layout::REQUEST_BYTES),
            ("counts_request", layout::COUNTS_REQUEST_BYTES),
            ("counts_answer", layout::COUNTS_ANSWER_BYTES),
        ] {
            let found = types.type_by_name::<kinds::Struct<'_>>(name).unwrap();
            assert_eq!(found.size(), bytes, "{name}");
        }
        let open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut programs: Vec<String> =
            open.progs().map(|p| p.name().to_string_lossy().into_owned()).collect();
        programs.sort();
        let mut known: Vec<&str> = ATTACHED.iter().map(|program| program.0).collect();
        known.extend(["read_counts", REST, "unwatch", "watch"]);
        known.sort_unstable();
        assert_eq!(programs, known);
    }
}
