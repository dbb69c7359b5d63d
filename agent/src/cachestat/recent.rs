// SPDX-License-Identifier: Apache-2.0
//! A source of accesses that maintains the working set of each slot, and passes events on.

use super::working_set::WorkingSet;
use crate::bpf::event::{Event, EventKind};
use crate::bpf::layout::{Counts, Losses};
use crate::bpf::sampler::PartState;
use crate::bpf::source::AccessSource;
use crate::error::Result;
use cachepilot_models::hash::page_hash;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The working sets of all slots, shared with the source that maintains them.
#[derive(Debug, Clone)]
pub struct WorkingSets(Arc<Mutex<Sets>>);

#[derive(Debug)]
struct Sets {
    window: Duration,
    now: Duration,
    slots: HashMap<u64, u32>,
    sets: HashMap<u32, WorkingSet>,
}

impl WorkingSets {
    /// No working sets yet. They will count pages accessed within `window`.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        let (slots, sets) = (HashMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(Sets { window, now: Duration::ZERO, slots, sets })))
    }

    fn lock(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the time of the next events.
    pub fn set_now(&self, now: Duration) {
        self.lock().now = now;
    }

    /// Estimate of the distinct pages that the tenant of a tracked cgroup accessed in the window.
    #[must_use]
    pub fn pages(&self, cgroup_id: u64) -> Option<f64> {
        let mut sets = self.lock();
        let slot = *sets.slots.get(&cgroup_id)?;
        let now = sets.now;
        sets.sets.get_mut(&slot).map(|set| set.pages(now))
    }
}

/// A source together with the working sets of what it reports.
pub struct Recent {
    source: Box<dyn AccessSource>,
    sets: WorkingSets,
}

impl Recent {
    /// Maintains `sets` from the events of `source`.
    #[must_use]
    pub fn new(source: Box<dyn AccessSource>, sets: WorkingSets) -> Self {
        Self { source, sets }
    }

    fn note(&self, events: &[Event]) {
        let mut sets = self.sets.lock();
        let Sets { now, slots, sets, .. } = &mut *sets;
        for event in events.iter().filter(|event| event.kind != EventKind::Removal) {
            let slot = slots.get(&event.record.cgroup);
            if let Some(set) = slot.and_then(|slot| sets.get_mut(slot)) {
                set.note(*now, page_hash(event.record.sample_key()));
            }
        }
    }
}

impl AccessSource for Recent {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        self.source.track(cgroup_id, slot, threshold)?;
        let mut sets = self.sets.lock();
        let Sets { window, now, slots, sets } = &mut *sets;
        slots.insert(cgroup_id, slot);
        sets.entry(slot).or_insert_with(|| WorkingSet::new(*window)).set_threshold(*now, threshold);
        Ok(())
    }

    fn forget(&self, cgroup_id: u64) {
        self.source.forget(cgroup_id);
        self.sets.lock().slots.remove(&cgroup_id);
    }

    fn clear(&self, slot: u32) -> Result<()> {
        self.sets.lock().sets.remove(&slot);
        self.source.clear(slot)
    }

    fn counts(&self) -> Result<HashMap<u32, Counts>> {
        self.source.counts()
    }

    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        self.source.drain(&mut |events| {
            self.note(events);
            take(events);
        })
    }

    fn losses(&self) -> Result<Losses> {
        self.source.losses()
    }

    fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        self.source.losses_of(cgroup_id)
    }

    fn parts(&self) -> &[PartState] {
        self.source.parts()
    }
}
