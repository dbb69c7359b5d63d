// SPDX-License-Identifier: Apache-2.0
//! Full and miniature simulation against each other and against exact stack distances.
#![allow(clippy::unwrap_used)]

mod common;

use cachepilot_models::curve::{Curve, geometric_size_grid, size_grid};
use cachepilot_models::exact::ExactLru;
use cachepilot_models::hash::page_hash;
use cachepilot_models::minisim::{Bank, BankConfig, Sampling};
use cachepilot_models::policy::{
    Candidate, Instance, InstanceConfig, KERNEL_BATCH, MAX_CAPACITY_PAGES, Policy, Requests, find,
    policies,
};
use common::{Trace, recorded, zipf};
use proptest::prelude::*;

fn config(capacity_pages: u64, batch: u32) -> InstanceConfig {
    InstanceConfig { capacity_pages, batch, seed: 1, tunables: Vec::new() }
}

fn misses(policy: &'static Policy, keys: &[u64], size_pages: u64, batch: u32) -> u64 {
    let mut instance = Instance::new(policy, &config(size_pages, batch)).unwrap();
    instance.run(Requests::of_keys(keys), None).unwrap();
    instance.check().unwrap();
    instance.stats().misses
}

fn bank(policies: &[&'static Policy], sizes: &[u64], sampling: Sampling) -> Bank {
    bank_of(policies.iter().map(|&policy| policy.into()).collect(), sizes, sampling)
}

fn bank_of(policies: Vec<Candidate>, sizes: &[u64], sampling: Sampling) -> Bank {
    Bank::new(BankConfig {
        policies,
        sizes_pages: sizes.to_vec(),
        sampling,
        half_life: None,
        seed: 1,
        threads: 1,
    })
    .unwrap()
}

fn curves(bank: &mut Bank, keys: &[u64]) -> Vec<Curve> {
    keys.chunks(50_000).for_each(|chunk| bank.access(Requests::of_keys(chunk)).unwrap());
    bank.curves().unwrap()
}

/// Every policy with so many of a million candidates refused; the invariants hold.
fn refused(per_million: u32) -> impl Iterator<Item = (Instance, &'static str)> {
    let keys = zipf(20_000, 4_000, 0.9, 1).keys;
    policies().iter().map(move |policy| {
        let mut instance = Instance::new(policy, &config(500, KERNEL_BATCH)).unwrap();
        instance.set_refusals(per_million);
        instance.run(Requests::of_keys(&keys), None).unwrap();
        instance.check().unwrap();
        (instance, policy.manifest.name.as_str())
    })
}

#[test]
fn refused_candidates_stay_and_others_are_asked_for() {
    for (instance, name) in refused(100_000) {
        let stats = instance.stats();
        let share = stats.rejected as f64 / stats.proposed as f64;
        assert!((share - 0.1).abs() < 0.03, "{name}: {share} refused");
        assert_eq!(stats.fallbacks, 0, "{name}");
        assert!(stats.resident >= 500 - u64::from(KERNEL_BATCH), "{name}: {}", stats.resident);
    }
}

/// What is refused is asked for again, so that most requests are small.
#[test]
fn small_requests_let_no_pages_of_a_loop_into_the_main_part_of_wtinylfu() {
    let keys: Vec<u64> = (0..60_000).map(|i| i % 1_000).collect();
    let misses = |per_million: u32| {
        let mut instance =
            Instance::new(find("wtinylfu").unwrap(), &config(500, KERNEL_BATCH)).unwrap();
        instance.set_refusals(per_million);
        instance.run(Requests::of_keys(&keys), None).unwrap();
        instance.stats().misses as f64
    };
    let (whole, small) = (misses(0), misses(100_000));
    assert!(small < 1.08 * whole, "{small} misses, {whole} where requests are whole");
}

#[test]
fn a_kernel_that_refuses_everything_chooses_by_itself() {
    for (instance, name) in refused(1_000_000) {
        let stats = instance.stats();
        assert_eq!(stats.fallbacks, stats.evictions, "{name}");
        assert!(stats.evictions > 0, "{name}");
    }
}

proptest! {
    #[test]
    fn lru_simulation_equals_stack_distances_at_every_size(
        keys in prop::collection::vec(0u64..60, 1..600),
    ) {
        let mut exact = ExactLru::new(None).unwrap();
        exact.access(&keys);
        let sizes: Vec<u64> = (1..=exact.footprint_pages()).collect();
        let curve = exact.curve(&sizes).unwrap();
        for (size, ratio) in sizes.iter().zip(&curve.miss_ratio) {
            let simulated = misses(find("lru").unwrap(), &keys, *size, 1) as f64;
            prop_assert!((ratio * keys.len() as f64 - simulated).abs() < 1e-6, "at {}", size);
        }
    }

    #[test]
    fn a_bank_at_rate_1_is_the_full_simulation(
        keys in prop::collection::vec(0u64..200, 1..1500),
        threads in 1usize..3,
    ) {
        let all: Vec<&'static Policy> = policies().iter().collect();
        let sizes = [3, 40, 150];
        let mut bank = Bank::new(BankConfig {
            policies: all.iter().map(|&policy| policy.into()).collect(),
            sizes_pages: sizes.to_vec(),
            sampling: Sampling::Rate(1.0),
            half_life: None,
            seed: 1,
            threads,
        }).unwrap();
        for (policy, curve) in all.iter().zip(curves(&mut bank, &keys)) {
            for (size, ratio) in sizes.iter().zip(&curve.miss_ratio) {
                let full = misses(policy, &keys, *size, KERNEL_BATCH) as f64;
                // Key-dependent policies see other keys (the hashes) in a miniature.
                if policy.manifest.needs.iter().any(|need| need == "page_keys") {
                    continue;
                }
                prop_assert!((ratio * keys.len() as f64 - full).abs() < 1e-6,
                             "{} at {}", policy.manifest.name, size);
            }
        }
    }
}

/// In the kernel the sketch stops growing at some capacity, and that of a miniature at one as much
/// smaller. Two of three pages are read once, which a small sketch does not tell from the hot ones.
#[test]
fn a_miniature_of_wtinylfu_has_as_small_a_sketch_as_what_it_stands_for() {
    const HOT_PAGES: u64 = 40_000;
    let page = |i: u64| if i.is_multiple_of(3) { page_hash(i) % HOT_PAGES } else { HOT_PAGES + i };
    let keys: Vec<u64> = (0..1_200_000).map(|i| page_hash(page(i))).collect();
    let capacity_pages = 45_056;
    let bounded = |sketch_pages: u32| {
        let mut candidate = Candidate::from(find("wtinylfu").unwrap());
        candidate.tunables = candidate
            .policy
            .manifest
            .tunable_values([("sketch_pages", sketch_pages.into())])
            .unwrap();
        candidate
    };
    let full = |sketch_pages: u32| {
        let Candidate { policy, tunables, .. } = bounded(sketch_pages);
        let config = InstanceConfig { tunables, ..config(capacity_pages, KERNEL_BATCH) };
        let mut instance = Instance::new(policy, &config).unwrap();
        instance.run(Requests::of_keys(&keys), None).unwrap();
        instance.stats().misses as f64 / keys.len() as f64
    };
    let (small, large) = (full(4_096), full(1 << 18));
    assert!(small > large + 0.03, "{small} with a small sketch, {large} with a large one");
    let mut bank = bank_of(vec![bounded(4_096)], &[capacity_pages], Sampling::Rate(1.0 / 16.0));
    let estimate = curves(&mut bank, &keys)[0].miss_ratio[0];
    assert!((estimate - small).abs() < (small - large) / 4.0, "{estimate}, in truth {small}");
}

/// Mean absolute error of the bank over all policies and sizes against full simulation.
fn bank_error(trace: &Trace, sampling: Sampling, sizes: &[u64]) -> f64 {
    let all: Vec<&'static Policy> = policies().iter().collect();
    let mut bank = bank(&all, sizes, sampling);
    let mut sum = 0.0;
    for (policy, curve) in all.iter().zip(curves(&mut bank, &trace.keys)) {
        for (&size, estimate) in sizes.iter().zip(&curve.miss_ratio) {
            let full = misses(policy, &trace.keys, size, KERNEL_BATCH) as f64;
            sum += (full / trace.keys.len() as f64 - estimate).abs();
        }
    }
    sum / (all.len() * sizes.len()) as f64
}

#[test]
fn miniatures_are_close_to_full_simulation() {
    let trace = zipf(1_000_000, 100_000, 0.9, 3);
    let sizes = size_grid(trace.distinct as u64, 4);
    let error = bank_error(&trace, Sampling::Size(8192), &sizes);
    assert!(error < 0.015, "zipf: {error}");
    for trace in recorded(100_000) {
        let sizes = size_grid(trace.distinct as u64, 3);
        let error = bank_error(&trace, Sampling::Size(8192), &sizes);
        assert!(error < 0.03, "{}: {error}", trace.name);
    }
}

#[test]
fn a_bounded_sample_lowers_its_rate_and_keeps_its_memory() {
    let trace = zipf(400_000, 100_000, 0.8, 5);
    let all: Vec<&'static Policy> = policies().iter().collect();
    // The largest size says 16,000 pages; the trace has some five times as many.
    let sizes = geometric_size_grid(1_000, 16_000, 6);
    let mut bank = bank(&all, &sizes, Sampling::Size(4096));
    let before = bank.bytes();
    let curves = curves(&mut bank, &trace.keys);
    assert!(bank.rate() < 0.1, "{}", bank.rate());
    assert!(bank.bytes() < before * 5 / 4, "{} after {before}", bank.bytes());
    let lru = policies().iter().position(|p| p.manifest.name == "lru").unwrap();
    for (point, &size) in sizes.iter().enumerate() {
        let full = misses(find("lru").unwrap(), &trace.keys, size, KERNEL_BATCH) as f64;
        let truth = full / trace.keys.len() as f64;
        let estimate = curves[lru].miss_ratio[point];
        assert!((truth - estimate).abs() < 0.05, "at {size}: {estimate}, in truth {truth}");
    }
}

#[test]
fn with_ageing_the_last_phase_wins() {
    let old = zipf(300_000, 20_000, 0.3, 7);
    let new = zipf(300_000, 20_000, 1.2, 8);
    let lru = [find("lru").unwrap()];
    let sizes = [2_000];
    let alone = curves(&mut bank(&lru, &sizes, Sampling::Rate(0.2)), &new.keys);
    let both: Vec<u64> = old.keys.iter().chain(&new.keys).copied().collect();
    let error = |half_life: Option<u64>| {
        let mut bank = Bank::new(BankConfig {
            policies: lru.map(Into::into).to_vec(),
            sizes_pages: sizes.to_vec(),
            sampling: Sampling::Rate(0.2),
            half_life,
            seed: 1,
            threads: 1,
        })
        .unwrap();
        (curves(&mut bank, &both)[0].miss_ratio[0] - alone[0].miss_ratio[0]).abs()
    };
    assert!(error(Some(30_000)) < 0.03, "{}", error(Some(30_000)));
    assert!(error(None) > 0.1, "{}", error(None));
}

#[test]
fn tasks_follow_their_accesses_into_the_sample() {
    let admission = find("admission").unwrap();
    let keys: Vec<u64> = (0..40_000).map(|i| i % 400).collect();
    let tasks: Vec<u32> = keys.iter().map(|key| (key % 2) as u32 + 1).collect();
    let mut bank = bank(&[admission], &[400], Sampling::Rate(0.5));
    let requests = Requests { keys: &keys, tasks: &tasks, times_ns: &[] };
    bank.access(requests).unwrap();
    // No task is filtered by default, so everything but the first accesses hits.
    assert!(bank.curves().unwrap()[0].miss_ratio[0] < 0.02);
}

#[test]
fn invalid_banks_are_refused() {
    let make = |sampling, sizes: &[u64], half_life| {
        let config = BankConfig {
            policies: vec![find("lru").unwrap().into()],
            sizes_pages: sizes.to_vec(),
            sampling,
            half_life,
            seed: 1,
            threads: 1,
        };
        Bank::new(config).err().map(|e| e.to_string()).unwrap()
    };
    assert_eq!(make(Sampling::Rate(0.0), &[1], None), "rate: 0 is outside (0, 1]");
    assert_eq!(make(Sampling::Rate(1.5), &[1], None), "rate: 1.5 is outside (0, 1]");
    assert_eq!(make(Sampling::Size(0), &[1], None), "smax: 0 is outside 1..");
    assert!(make(Sampling::Rate(0.5), &[], None).contains("at least one"));
    assert!(make(Sampling::Rate(0.5), &[1], Some(0)).starts_with("half_life:"));
}

#[test]
fn instances_refuse_what_they_cannot_be() {
    let lru = find("lru").unwrap();
    let refuse = |c: InstanceConfig| Instance::new(lru, &c).err().unwrap().to_string();
    assert!(refuse(config(0, 32)).starts_with("size: 0 pages are not in 1..="));
    assert!(refuse(config(MAX_CAPACITY_PAGES + 1, 32)).starts_with("size: "));
    assert!(refuse(config(10, 33)).starts_with("batch: 33 is not in 1..=32"));
    let with_tunable = InstanceConfig { tunables: vec![1], ..config(10, 1) };
    assert!(refuse(with_tunable).starts_with("tunables: 1 values given"));
    let unknown = find("nosuch").err().unwrap().to_string();
    assert!(unknown.starts_with("policy: \"nosuch\" is none of "), "{unknown}");
}

#[test]
fn every_policy_can_be_as_large_as_is_allowed() {
    for policy in policies() {
        let instance = Instance::new(policy, &config(MAX_CAPACITY_PAGES, 32));
        assert!(instance.is_ok(), "{}", policy.manifest.name);
    }
}

#[test]
fn a_bound_far_above_the_trace_costs_nothing() {
    for bound in [1 << 50, usize::MAX] {
        let mut bank = bank(&[find("lru").unwrap()], &[10], Sampling::Size(bound));
        bank.access(Requests::of_keys(&[1, 2, 1])).unwrap();
        assert!((bank.curves().unwrap()[0].miss_ratio[0] - 2.0 / 3.0).abs() < 1e-9);
    }
}

#[test]
fn columns_may_come_and_go_but_not_be_cut() {
    let mut bank = bank(&[find("admission").unwrap()], &[10], Sampling::Rate(1.0));
    let (keys, tasks, times_ns) = ([1, 2, 3], [1, 1, 1], [5, 6, 7]);
    bank.access(Requests::of_keys(&keys)).unwrap();
    bank.access(Requests { keys: &keys, tasks: &tasks, times_ns: &[] }).unwrap();
    bank.access(Requests { keys: &keys, tasks: &tasks, times_ns: &times_ns }).unwrap();
    bank.access(Requests::of_keys(&keys)).unwrap();
    let cut = Requests { keys: &keys, tasks: &tasks[..2], times_ns: &[] };
    assert_eq!(bank.access(cut).unwrap_err().to_string(), "tasks: 2 values for 3 keys");
    assert!((bank.curves().unwrap()[0].miss_ratio[0] - 0.25).abs() < 1e-9);
}

/// A target of thousands of pages, learned in a large cache, must not keep a small one from
/// holding on to what is accessed again and again.
#[test]
fn arc_takes_its_target_down_when_the_cache_shrinks() {
    let arc = find("arc").unwrap();
    let serve = |instance: &mut Instance, keys: &[u64]| {
        let before = instance.stats().misses;
        instance.run(Requests::of_keys(keys), None).unwrap();
        instance.stats().misses - before
    };
    let twice = (0..2).flat_map(|_| 1 << 30..(1 << 30) + 8_000);
    let recent = (0..200_000u64).flat_map(|i| [i, i.saturating_sub(3_000)]);
    let recency: Vec<u64> = twice.chain(recent).collect();
    let hot_and_new = |i: u64| [(1 << 24) + i % 30, (1 << 25) + i];
    let frequency: Vec<u64> = (0..10_000).flat_map(hot_and_new).collect();
    let mut shrunk = Instance::new(arc, &config(8_000, 32)).unwrap();
    serve(&mut shrunk, &recency);
    shrunk.resize(100, 1).unwrap();
    let mut fresh = Instance::new(arc, &config(100, 1)).unwrap();
    let (after, alone) = (serve(&mut shrunk, &frequency), serve(&mut fresh, &frequency));
    assert!(after < alone + 500, "{after} misses after shrinking, {alone} in a new cache");
}

/// In the kernel what a cgroup has for pages wavers by what CPUs charge ahead. Pages that became LIR
/// with each rise, and left with each fall, would be those that a loop reads next.
#[test]
fn lirs_keeps_what_it_has_of_a_loop_though_its_room_wavers() {
    const LOOP_PAGES: u64 = 3_200;
    const STEP: u64 = 16;
    let lirs = find("lirs").unwrap();
    let mut instance = Instance::new(lirs, &config(2_700, 32)).unwrap();
    let keys: Vec<u64> = (0..10 * LOOP_PAGES).map(|i| i % LOOP_PAGES).collect();
    let warm_up = 3 * LOOP_PAGES / STEP * STEP;
    let mut warm_misses = 0;
    for (i, part) in keys.chunks(STEP as usize).enumerate() {
        instance.resize(2_600 + 100 * (i as u64 % 2), 32).unwrap();
        instance.run(Requests::of_keys(part), None).unwrap();
        if (i as u64 + 1) * STEP == warm_up {
            warm_misses = instance.stats().misses;
        }
    }
    let misses = instance.stats().misses - warm_misses;
    let missed = misses as f64 / (10 * LOOP_PAGES - warm_up) as f64;
    // 600 of the 3,200 pages do not fit into the lesser room.
    assert!(missed < 0.25, "misses {missed:.3} of a loop");
}
