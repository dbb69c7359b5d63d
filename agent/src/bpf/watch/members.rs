// SPDX-License-Identifier: Apache-2.0
//! The watched cgroups and their counts, which go on when the kernel's own begin again.

use super::kernel::{Kernel, Read};
use super::rest::Rest;
use crate::bpf::layout::{Counts, Losses, READ_AT_ONCE};
use crate::error::{Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

/// The watched cgroups of a kernel.
pub(super) struct Members<K: Kernel> {
    pub(super) kernel: K,
    slots: RefCell<Slots>,
    rest: RefCell<Rest<K::Attached>>,
    /// Whether tracking a cgroup that another process watches is an error.
    alone: bool,
}

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

impl<K: Kernel> std::fmt::Debug for Members<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl<K: Kernel> Members<K> {
    /// No cgroups of `kernel` yet.
    pub(super) fn new(kernel: K) -> Self {
        Self { kernel, slots: RefCell::default(), rest: RefCell::default(), alone: false }
    }

    /// From now on, the end of large reads is looked at, and tracking a cgroup that another process
    /// watches is an error.
    pub(super) fn be_alone(&mut self) {
        self.alone = true;
        self.rest.borrow_mut().begin(|| self.kernel.attach_rest());
    }

    fn read_one(&self, cgroup_id: u64) -> Read {
        self.kernel.read(&[cgroup_id])?.pop().unwrap_or(Ok(None))
    }

    /// Reads the counts of up to [`READ_AT_ONCE`] members again. Members that could not be read are
    /// added to `unread`.
    fn refresh_all(&self, cgroup_ids: &[u64], unread: &mut Vec<u64>) -> Result<()> {
        let rest: Vec<_> = cgroup_ids.iter().map(|&id| self.rest_pages(id)).collect();
        for ((&id, rest), read) in cgroup_ids.iter().zip(rest).zip(self.kernel.read(cgroup_ids)?) {
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
            self.kernel.close(cgroup_id);
            self.kernel.track(cgroup_id, member.slot, member.threshold)?;
            // Only now: if tracking fails, the next read tries again, and they count once.
            *left.entry(member.slot).or_default() += &member.counts;
            *unsampled_left += member.unsampled_pages();
            rest_pages = 0;
        }
        (member.counts, member.left_out_pages) = (counts, left_out_pages);
        member.rest_pages = rest_pages;
        let threshold = member.threshold;
        drop(slots);
        if read.is_none() {
            self.kernel.watch(cgroup_id, threshold)?;
        }
        Ok(())
    }

    /// Pages that the agent's program looked at in place of the kernel. This must be read before
    /// the kernel's own counts, in which these pages appear a moment later.
    fn rest_pages(&self, cgroup_id: u64) -> Result<u64> {
        match self.rest.borrow().used() {
            true => Ok(self.kernel.share(cgroup_id)?.1),
            false => Ok(0),
        }
    }

    /// See [`crate::bpf::source::AccessSource::track`].
    pub(super) fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        if let Some(member) = self.slots.borrow_mut().members.get_mut(&cgroup_id)
            && member.slot == slot
        {
            member.threshold = threshold;
            self.kernel.track(cgroup_id, slot, threshold)?;
            return self.kernel.watch(cgroup_id, threshold).map(|_| ());
        }
        if self.alone && self.read_one(cgroup_id)?.is_some() {
            let advice = "watched for another program; record it with --counting programs";
            return Err(Error::Sampler(format!("cgroup {cgroup_id}: {advice}")));
        }
        // The counts that an earlier agent or another tenant left must not count for this tenant.
        self.forget(cgroup_id);
        self.kernel.track(cgroup_id, slot, threshold)?;
        if self.kernel.watch(cgroup_id, threshold)? {
            let member = Member { slot, threshold, ..Member::default() };
            self.slots.borrow_mut().members.insert(cgroup_id, member);
        }
        Ok(())
    }

    /// Stops tracking a cgroup. Its counts stay with its slot.
    pub(super) fn forget(&self, cgroup_id: u64) {
        // If this fails, the cgroup is gone already, with its counts since the last read.
        let rest_pages = self.rest_pages(cgroup_id).unwrap_or(0);
        if let Ok(Some((counts, left_out_pages))) = self.read_one(cgroup_id)
            && let Some(member) = self.slots.borrow_mut().members.get_mut(&cgroup_id)
            && !counts.is_before(&member.counts)
        {
            (member.counts, member.left_out_pages) = (counts, left_out_pages);
            member.rest_pages = rest_pages;
        }
        self.kernel.unwatch(cgroup_id);
        self.kernel.close(cgroup_id);
        let mut slots = self.slots.borrow_mut();
        if let Some(member) = slots.members.remove(&cgroup_id) {
            *slots.left.entry(member.slot).or_default() += &member.counts;
            slots.unsampled_left += member.unsampled_pages();
        }
    }

    /// Deletes the counts of cgroups that left a slot.
    pub(super) fn clear(&self, slot: u32) {
        self.slots.borrow_mut().left.remove(&slot);
    }

    /// The counts of each slot, without those of which a member could not be read.
    pub(super) fn counts(&self) -> Result<HashMap<u32, Counts>> {
        let ids: Vec<u64> = self.slots.borrow().members.keys().copied().collect();
        let mut unread = Vec::new();
        for ids in ids.chunks(READ_AT_ONCE) {
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

    /// Pages of all cgroups that were counted but not considered for sampling, as last read.
    pub(super) fn unsampled_pages(&self) -> u64 {
        let slots = self.slots.borrow();
        let left_out = slots.members.values().map(|member| member.left_out_pages).sum::<u64>();
        self.rest.borrow_mut().follow(left_out, || self.kernel.attach_rest());
        slots.unsampled_left + slots.members.values().map(Member::unsampled_pages).sum::<u64>()
    }

    /// The losses of a cgroup.
    pub(super) fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        let (mut losses, _) = self.kernel.share(cgroup_id)?;
        let slots = self.slots.borrow();
        losses.unsampled_pages += slots.members.get(&cgroup_id).map_or(0, Member::unsampled_pages);
        Ok(losses)
    }

    /// Ends all watches.
    pub(super) fn end(&self) {
        self.slots.borrow().members.keys().for_each(|&cgroup_id| self.kernel.unwatch(cgroup_id));
        drop(self.rest.take());
    }
}
