// SPDX-License-Identifier: Apache-2.0
//! A kernel in which cgroups read: what it counts, and the events of its sampler.
#![allow(clippy::unwrap_used)]

use cachepilot_agent::Result;
use cachepilot_agent::bpf::event::{Event, EventKind};
use cachepilot_agent::bpf::layout::{Counts, Losses};
use cachepilot_agent::bpf::sampler::PartState;
use cachepilot_agent::bpf::source::AccessSource;
use cachepilot_models::hash::page_hash;
use cachepilot_models::trace::Record;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// What the kernel counted, and the events that wait.
#[derive(Default)]
struct Seen {
    tracked: BTreeMap<u64, (u32, u64)>,
    counts: HashMap<u32, Counts>,
    events: Vec<Event>,
    reported: u64,
}

#[derive(Clone, Default)]
pub struct Source(Arc<Mutex<Seen>>);

impl Source {
    /// A cgroup makes these accesses; nothing happens when it is not tracked.
    pub fn read(&self, cgroup: u64, accesses: impl Iterator<Item = Record>) {
        let mut seen = self.0.lock().unwrap();
        let Some(&(slot, threshold)) = seen.tracked.get(&cgroup) else { return };
        for record in accesses {
            seen.counts.entry(slot).or_default().accesses += 1;
            if page_hash(record.sample_key()) < threshold {
                seen.events.push(Event { record, mmap: false, kind: EventKind::Access });
                seen.reported += 1;
            }
        }
    }

    /// Events so far.
    pub fn reported(&self) -> u64 {
        self.0.lock().unwrap().reported
    }
}

impl AccessSource for Source {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        let mut seen = self.0.lock().unwrap();
        seen.tracked.insert(cgroup_id, (slot, threshold));
        seen.counts.entry(slot).or_default();
        Ok(())
    }
    fn forget(&self, cgroup_id: u64) {
        self.0.lock().unwrap().tracked.remove(&cgroup_id);
    }
    fn clear(&self, slot: u32) -> Result<()> {
        self.0.lock().unwrap().counts.remove(&slot);
        Ok(())
    }
    fn counts(&self) -> Result<HashMap<u32, Counts>> {
        Ok(self.0.lock().unwrap().counts.clone())
    }
    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        let events = std::mem::take(&mut self.0.lock().unwrap().events);
        take(&events);
        Ok(())
    }
    fn losses(&self) -> Result<Losses> {
        Ok(Losses::default())
    }
    fn losses_of(&self, _: u64) -> Result<Losses> {
        Ok(Losses::default())
    }
    fn parts(&self) -> &[PartState] {
        &[]
    }
}
