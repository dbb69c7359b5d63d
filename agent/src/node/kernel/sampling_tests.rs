// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::bpf::sampler::PartState;
use crate::bpf::sampler_layout::{Counts, Event, Losses};
use crate::error::Error;
use cachepilot_models::hash::page_hash;
use cachepilot_models::trace::Record;
use std::sync::{Arc, Mutex};

/// A kernel that is told what was accessed.
#[derive(Default)]
pub struct State {
    pub tracked: BTreeMap<u64, (u32, u64)>,
    pub counts: BTreeMap<u32, Counts>,
    pub events: Vec<Event>,
    pub losses: Losses,
    pub room: usize,
}

#[derive(Clone)]
pub struct Source(pub Arc<Mutex<State>>);

impl Source {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { room: 4096, ..State::default() })))
    }

    /// Accesses of a tracked cgroup: all are counted, those of pages below its threshold come as
    /// events.
    pub fn access(&self, cgroup: u64, pages: std::ops::Range<u64>) {
        let mut state = self.0.lock().unwrap();
        let Some(&(slot, threshold)) = state.tracked.get(&cgroup) else { return };
        state.counts.get_mut(&slot).unwrap().accesses += pages.end - pages.start;
        let record = |index| Record { cgroup, index, inode: 1, ..Record::default() };
        let events = pages.map(|index| Event { record: record(index), mmap: false });
        state.events.extend(events.filter(|e| page_hash(e.record.sample_key()) < threshold));
    }

    /// Pages that readahead brings to the tenant in a slot.
    pub fn readahead(&self, slot: u32, pages: u64) {
        self.0.lock().unwrap().counts.get_mut(&slot).unwrap().readahead_pages += pages;
    }
}

impl AccessSource for Source {
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.tracked.len() >= state.room && !state.tracked.contains_key(&cgroup_id) {
            return Err(Error::Sampler("full".into()));
        }
        state.tracked.insert(cgroup_id, (slot, threshold));
        Ok(())
    }
    fn forget(&self, cgroup_id: u64) {
        self.0.lock().unwrap().tracked.remove(&cgroup_id);
    }
    fn clear(&self, slot: u32) -> Result<()> {
        self.0.lock().unwrap().counts.insert(slot, Counts::default());
        Ok(())
    }
    fn counts(&self, slot: u32) -> Result<Counts> {
        Ok(self.0.lock().unwrap().counts[&slot].clone())
    }
    fn drain(&self) -> Result<Vec<Event>> {
        Ok(std::mem::take(&mut self.0.lock().unwrap().events))
    }
    fn losses(&self) -> Result<Losses> {
        Ok(self.0.lock().unwrap().losses)
    }
    fn parts(&self) -> &[PartState] {
        &[PartState { name: "reads", missing: None }]
    }
}

fn config() -> CurvesConfig {
    CurvesConfig {
        sizes_pages: vec![64, 256, 1024],
        sample_pages: 256,
        half_life: 1000,
        ..CurvesConfig::default()
    }
}

fn sampling(max_tenants: u32) -> (Source, Sampling) {
    let source = Source::new();
    (source.clone(), Sampling::new(Box::new(source), config(), max_tenants).unwrap())
}

fn tenant(id: u64, members: &[u64]) -> Found {
    Found { cgroup: format!("/{id}"), id, members: members.to_vec() }
}

fn tracked(source: &Source) -> Vec<u64> {
    source.0.lock().unwrap().tracked.keys().copied().collect()
}

#[test]
fn cgroups_of_tenants_are_tracked_as_long_as_they_are_there() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1, 10]), tenant(2, &[2])]);
    assert_eq!(tracked(&source), [1, 2, 10]);
    // A cgroup inside becomes a tenant of its own.
    sampling.follow(&[tenant(1, &[1, 11]), tenant(2, &[2]), tenant(10, &[10])]);
    assert_eq!(tracked(&source), [1, 2, 10, 11]);
    let state = source.0.lock().unwrap().tracked.clone();
    assert_eq!(state[&1].0, state[&11].0);
    assert_ne!(state[&1].0, state[&10].0);
    sampling.follow(&[tenant(10, &[10])]);
    assert_eq!(tracked(&source), [10]);
    sampling.follow(&[]);
    assert_eq!(sampling.free.len(), 8);
}

#[test]
fn tenants_beyond_the_bound_are_counted_and_say_so() {
    let (source, mut sampling) = sampling(1);
    for _ in 0..3 {
        sampling.follow(&[tenant(1, &[1]), tenant(2, &[2])]);
    }
    assert_eq!(tracked(&source), [1]);
    assert_eq!(sampling.loss().untracked_tenants_total, 1);
    let beyond = told(&mut sampling, 2, 0);
    assert!(beyond.distrust.contains("max_tenants") && beyond.counters.is_none());
    sampling.follow(&[tenant(2, &[2])]);
    assert_eq!(tracked(&source), [2]);
    source.0.lock().unwrap().room = 1;
    sampling.follow(&[tenant(2, &[2, 20])]);
    assert_eq!(sampling.loss().untracked_tenants_total, 2);
}

/// A tenant as the node shows it, with what is counted and learnt of it.
fn told(sampling: &mut Sampling, id: u64, limit_bytes: u64) -> wire::Tenant {
    sampling.begin_judging().unwrap();
    let policy = "default".into();
    let mut shown = wire::Tenant { cgroup_id: id, policy, limit_bytes, ..wire::Tenant::default() };
    let usage = Usage { current: 5 << 12, file: 5 << 12, ..Usage::default() };
    sampling.tell(&mut shown, &usage);
    shown
}

#[test]
fn the_threshold_follows_the_budget_of_events() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1, 10]), tenant(2, &[2])]);
    let threshold = |id: u64| source.0.lock().unwrap().tracked[&id].1;
    let first = threshold(1);
    assert_eq!(first, u64::MAX, "everything is sampled until there is too much");
    // Many times the budget: lowered, for all cgroups of the tenant.
    source.access(10, 0..1_000_000);
    sampling.tick(Duration::from_millis(500)).unwrap();
    let lowered = threshold(1);
    assert!(lowered < first / 4 && lowered == threshold(10), "{lowered:x}");
    assert_eq!(threshold(2), first);
    // Few accesses for long: raised.
    for _ in 0..80 {
        source.access(1, 0..100);
        sampling.tick(Duration::from_millis(500)).unwrap();
    }
    assert!(threshold(1) > lowered && threshold(1) == threshold(10), "{:x}", threshold(1));
}

#[test]
fn curves_come_from_events_and_are_judged_by_what_was_counted() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1])]);
    let nothing = told(&mut sampling, 1, 256 << 12);
    assert_eq!((nothing.curves, nothing.trusted), (None, false));
    assert_eq!(nothing.distrust, "warming up: nothing was sampled yet");
    // Round and round over fewer pages than the cache holds, brought by readahead at first.
    source.readahead(0, 128);
    let mut last = wire::Tenant::default();
    for _ in 0..100 {
        source.access(1, 0..128);
        sampling.tick(Duration::from_millis(500)).unwrap();
        last = told(&mut sampling, 1, 256 << 12);
    }
    assert_eq!((last.trusted, last.distrust.as_str()), (true, ""));
    assert_eq!(last.counters.as_ref().unwrap().readahead_pages_total, 128);
    let curves = last.curves.unwrap();
    assert_eq!(curves.sizes_bytes, [64 << 12, 256 << 12, 1024 << 12]);
    assert_eq!(last.curves_generation, curves.generation);
    // The same accesses, but every page is read anew: not what the curve says.
    for _ in 0..8 {
        source.access(1, 0..128);
        source.readahead(0, 128);
        sampling.tick(Duration::from_millis(500)).unwrap();
        last = told(&mut sampling, 1, 256 << 12);
    }
    assert!(last.distrust.contains("measured 1.000"), "{}", last.distrust);
}

#[test]
fn lost_events_make_curves_untrusted_as_long_as_they_are_lost() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1])]);
    let mut interval = |dropped: u64| {
        source.access(1, 0..128);
        source.0.lock().unwrap().losses.dropped_events += dropped;
        sampling.tick(Duration::from_millis(500)).unwrap();
        told(&mut sampling, 1, 256 << 12).distrust
    };
    assert_eq!((0..100).map(|_| interval(0)).last().unwrap(), "");
    let distrust = interval(1000);
    assert!(distrust.ends_with("of the sampled events were dropped"), "{distrust}");
    assert_eq!(interval(0), "");
    assert_eq!(sampling.loss().dropped_events_total, 1000);
}
