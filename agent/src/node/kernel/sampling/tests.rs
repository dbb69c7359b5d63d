// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::bpf::event::{Event, EventKind};
use crate::bpf::layout::{Counts, Losses};
use crate::bpf::sampler::PartState;
use crate::curves::LEAST_SHARE_BYTES;
use crate::error::Error;
use crate::node::kernel::tenant::found::Found;
use cachepilot_models::hash::page_hash;
use cachepilot_models::trace::Record;
use std::sync::{Arc, Mutex};

/// A fake kernel, whose accesses are made by the test.
#[derive(Default)]
pub struct State {
    pub tracked: BTreeMap<u64, (u32, u64)>,
    pub counts: BTreeMap<u32, Counts>,
    pub events: Vec<Event>,
    pub losses: BTreeMap<u64, Losses>,
    pub asked_whose: u64,
    pub asked_counts: u64,
    pub room: usize,
}

#[derive(Clone)]
pub struct Source(pub Arc<Mutex<State>>);

impl Source {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { room: 4096, ..State::default() })))
    }

    /// Makes accesses of a tracked cgroup. All are counted, and those to pages below its threshold
    /// become events.
    pub fn access(&self, cgroup: u64, pages: std::ops::Range<u64>) {
        let mut state = self.0.lock().unwrap();
        let Some(&(slot, threshold)) = state.tracked.get(&cgroup) else { return };
        state.counts.get_mut(&slot).unwrap().accesses += pages.end - pages.start;
        let record = |index| Record { cgroup, index, inode: 1, ..Record::default() };
        let events = pages.map(|index| Event {
            record: record(index),
            mmap: false,
            kind: EventKind::Access,
        });
        state.events.extend(events.filter(|e| page_hash(e.record.sample_key()) < threshold));
    }

    /// Makes readahead read pages for the tenant in a slot.
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
        state.counts.entry(slot).or_default();
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
        let mut state = self.0.lock().unwrap();
        state.asked_counts += 1;
        Ok(state.counts.clone().into_iter().collect())
    }
    fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        let events = std::mem::take(&mut self.0.lock().unwrap().events);
        take(&events);
        Ok(())
    }
    fn losses(&self) -> Result<Losses> {
        let mut losses = Losses::default();
        self.0.lock().unwrap().losses.values().for_each(|&of_cgroup| losses += of_cgroup);
        Ok(losses)
    }
    fn losses_of(&self, cgroup_id: u64) -> Result<Losses> {
        let mut state = self.0.lock().unwrap();
        state.asked_whose += 1;
        Ok(state.losses.get(&cgroup_id).copied().unwrap_or_default())
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
    // A cgroup inside a tenant becomes a tenant of its own.
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

/// The state of a tenant as the node reports it, with its counts and curves.
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
    // The events are many times the budget, so the threshold falls for all cgroups of the tenant.
    source.access(10, 0..1_000_000);
    sampling.tick(Duration::from_millis(500)).unwrap();
    let lowered = threshold(1);
    assert!(lowered < first / 4 && lowered == threshold(10), "{lowered:x}");
    assert_eq!(threshold(2), first);
    // There are few accesses for a long time, so the threshold rises.
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
    // A loop over fewer pages than the cache has, which readahead reads at first.
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
    // The same accesses, but every page is read again each time, which the curve does not predict.
    for _ in 0..8 {
        source.access(1, 0..128);
        source.readahead(0, 128);
        sampling.tick(Duration::from_millis(500)).unwrap();
        last = told(&mut sampling, 1, 256 << 12);
    }
    assert!(last.distrust.contains("measured 1.000"), "{}", last.distrust);
}

#[test]
fn a_tenant_of_which_a_part_is_not_tracked_is_not_trusted() {
    let (source, mut sampling) = sampling(8);
    let parts = [tenant(1, &[1, 10, 11]), tenant(2, &[2])];
    source.0.lock().unwrap().room = 4;
    let mut look = |source: &Source, found: &[Found]| {
        sampling.follow(found);
        [1, 2].iter().for_each(|&cgroup| source.access(cgroup, 0..128));
        sampling.tick(Duration::from_millis(500)).unwrap();
        [1, 2]
            .map(|id| told(&mut sampling, id, 256 << 12))
            .map(|told| (told.trusted, told.distrust))
    };
    (0..100).for_each(|_| _ = look(&source, &parts));
    let trusted = (true, String::new());
    assert_eq!(look(&source, &parts), [trusted.clone(), trusted.clone()]);
    let more = [tenant(1, &[1, 10, 11, 12, 13]), tenant(2, &[2])];
    let reason = "2 of its 5 cgroups are not sampled: there are too many";
    assert_eq!(look(&source, &more), [(false, reason.into()), trusted.clone()]);
    source.0.lock().unwrap().room = 6;
    assert_eq!(look(&source, &more), [trusted.clone(), trusted]);
}

/// The reasons why the curves of tenants 1 and 2 have low confidence after an interval of 128
/// accesses each, in which cgroup 10 of the first tenant lost events and had pages that were not
/// considered for sampling.
fn interval(source: &Source, sampling: &mut Sampling, dropped: u64, unsampled: u64) -> [String; 2] {
    [1, 2].iter().for_each(|&cgroup| source.access(cgroup, 0..128));
    {
        let mut state = source.0.lock().unwrap();
        let lost = state.losses.entry(10).or_default();
        lost.dropped_events += dropped;
        lost.unsampled_pages += unsampled;
    }
    sampling.tick(Duration::from_millis(500)).unwrap();
    sampling.begin_judging().unwrap();
    [1, 2].map(|id| {
        let policy = "default".into();
        let limit_bytes = 256 << 12;
        let mut shown =
            wire::Tenant { cgroup_id: id, policy, limit_bytes, ..wire::Tenant::default() };
        sampling.tell(&mut shown, &Usage::default());
        shown.distrust
    })
}

#[test]
fn lost_events_make_curves_of_their_tenant_untrusted_as_long_as_they_are_lost() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1, 10]), tenant(2, &[2])]);
    for _ in 0..100 {
        interval(&source, &mut sampling, 0, 0);
    }
    let trusted = [String::new(), String::new()];
    let asked = || source.0.lock().unwrap().asked_whose;
    let asked_before = asked();
    assert_eq!(interval(&source, &mut sampling, 0, 0), trusted);
    assert_eq!(asked(), asked_before, "nothing was lost");
    for (dropped, unsampled) in [(1000, 0), (0, 100)] {
        let [lossy, other] = interval(&source, &mut sampling, dropped, unsampled);
        assert!(lossy.ends_with("of the sampled events were dropped"), "{lossy}");
        assert_eq!(other, "");
        assert_eq!(interval(&source, &mut sampling, 0, 0), trusted);
    }
    assert_eq!(sampling.loss().dropped_events_total, 1100);
}

#[test]
fn losses_of_a_cgroup_stay_with_the_tenant_that_had_it() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1, 10]), tenant(2, &[2])]);
    for _ in 0..100 {
        interval(&source, &mut sampling, 0, 0);
    }
    source.0.lock().unwrap().losses.entry(10).or_default().dropped_events += 1000;
    sampling.follow(&[tenant(1, &[1]), tenant(2, &[2, 10])]);
    let [before, after] = interval(&source, &mut sampling, 0, 0);
    assert!(before.ends_with("of the sampled events were dropped"), "{before}");
    assert_eq!(after, "");
}

/// Ticks a node for `seconds`, with an observation after each second if `looks` is true. Returns
/// how often counts were read.
fn run(source: &Source, sampling: &mut Sampling, seconds: u64, looks: bool) -> u64 {
    let before = source.0.lock().unwrap().asked_counts;
    for tick in 1..=20 * seconds {
        source.access(1, 0..20);
        sampling.tick(Duration::from_millis(50)).unwrap();
        if looks && tick % 20 == 0 {
            sampling.begin_judging().unwrap();
        }
    }
    source.0.lock().unwrap().asked_counts - before
}

#[test]
fn counts_of_all_tenants_are_read_once_a_second_with_looks_and_without() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1, 10]), tenant(2, &[2]), tenant(3, &[3])]);
    assert_eq!(run(&source, &mut sampling, 20, false), 20);
    // The first observation comes with the round that was due, or a moment later.
    assert!(run(&source, &mut sampling, 20, true) <= 21);
}

#[test]
fn a_flood_lowers_the_threshold_with_the_next_tick_and_only_what_is_below_is_learnt() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1]), tenant(2, &[2])]);
    source.access(1, 0..20_000);
    source.access(2, 0..100);
    sampling.tick(Duration::from_millis(50)).unwrap();
    let state = |id: u64| source.0.lock().unwrap().tracked[&id].1;
    let lowered = state(1);
    assert!(lowered < u64::MAX / 16 && state(2) == u64::MAX, "{lowered:x}");
    assert_eq!(source.0.lock().unwrap().asked_counts, 0, "no counts are needed for that");
    let waiting = sampling.tenants[&1].learning.waiting();
    assert!((1..=1500).contains(&waiting), "{waiting} of 20,000 wait");
    assert_eq!(sampling.tenants[&2].learning.waiting(), 100);
    sampling.tick(SECOND).unwrap();
    let learnt = told(&mut sampling, 1, 256 << 12).curves.unwrap();
    assert!(learnt.miss_ratio.iter().all(|&ratio| ratio > 0.9), "each page was new");
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn many_floods_at_once_take_no_memory_before_it_is_shared() {
    let source = Source::new();
    let config = CurvesConfig { node_bytes: LEAST_SHARE_BYTES, ..config() };
    let first_bytes = TenantCurves::new(&config).unwrap().bytes();
    assert!(30 * first_bytes > config.node_bytes, "there is no room for all");
    let mut sampling = Sampling::new(Box::new(source.clone()), config.clone(), 64).unwrap();
    let found: Vec<Found> = (1..=40).map(|id| tenant(id, &[id])).collect();
    sampling.follow(&found);
    for _ in 0..2 {
        (1..=40).for_each(|id| source.access(id, 0..20_000));
        sampling.tick(Duration::from_millis(50)).unwrap();
        assert_eq!(sampling.curves_bytes(), 0);
    }
    let threshold = |id: u64| source.0.lock().unwrap().tracked[&id].1;
    let thinned = threshold(1);
    assert!((1..=40).all(|id| threshold(id) < u64::MAX / 16));
    sampling.tick(SECOND).unwrap();
    let bytes = sampling.curves_bytes();
    assert!((1..=config.node_bytes).contains(&bytes), "{bytes} of {}", config.node_bytes);
    assert!(sampling.loss().untracked_tenants_total >= 10, "the others say that there is no room");
    assert!(threshold(1) == thinned, "curves go on with what was found meanwhile");
}

#[test]
fn a_flood_of_unsampled_pages_does_not_prevent_the_start() {
    let (source, mut sampling) = sampling(8);
    sampling.follow(&[tenant(1, &[1])]);
    for _ in 0..8 {
        // A single page, which is below no lower threshold.
        (0..20_000).for_each(|_| source.access(1, 0..1));
        sampling.tick(Duration::from_millis(50)).unwrap();
    }
    let lowered = source.0.lock().unwrap().tracked[&1].1;
    for _ in 0..40 {
        source.access(1, 1..100);
        sampling.tick(SECOND).unwrap();
    }
    assert!(source.0.lock().unwrap().tracked[&1].1 > lowered, "the threshold is raised again");
}
