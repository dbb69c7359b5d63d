// SPDX-License-Identifier: Apache-2.0
//! Every policy on random requests, sizes, batches, resizes and truncations. The invariants of the
//! page cache are checked after every step; under `scripts/sanitize` memory and arithmetic too.
#![allow(clippy::unwrap_used)]

use std::collections::{HashSet, VecDeque};

use cachepilot_models::policy::{Instance, InstanceConfig, Policy, Requests, policies};
use proptest::prelude::*;

/// What happens to an instance between two checks.
#[derive(Debug, Clone)]
enum Step {
    /// Requests for (key, task) pairs.
    Run(Vec<(u64, u32)>),
    /// A scan over that many new pages.
    Scan(u64),
    /// Truncation of pages that may be resident, ghosts or neither.
    Forget(Vec<u64>),
    /// Another capacity and batch.
    Resize(u64, u32),
    /// Tunables, each at the given share of its range.
    Tune(Vec<f64>),
}

fn step() -> impl Strategy<Value = Step> {
    let skewed = (0..400u64, 0..400u64).prop_map(|(a, b)| a * b / 400);
    prop_oneof![
        6 => prop::collection::vec((skewed.clone(), 0..4u32), 1..400).prop_map(Step::Run),
        2 => (1..600u64).prop_map(Step::Scan),
        2 => prop::collection::vec(skewed, 1..40).prop_map(Step::Forget),
        2 => (1..300u64, 1..=32u32).prop_map(|(pages, batch)| Step::Resize(pages, batch)),
        1 => prop::collection::vec(0.0..=1.0f64, 1..8).prop_map(Step::Tune),
    ]
}

/// Values within the declared ranges, `shares` going round.
fn tuned(policy: &Policy, shares: &[f64]) -> Vec<u32> {
    let mut shares = shares.iter().cycle();
    let mut values = Vec::new();
    for tunable in &policy.manifest.tunables {
        for _ in 0..tunable.length {
            let span = f64::from(tunable.max - tunable.min);
            values.push(tunable.min + (span * shares.next().unwrap()) as u32);
        }
    }
    values
}

/// A cache of `capacity` pages and what must be true of its counts.
struct Checked {
    instance: Instance,
    capacity: u64,
    requests: u64,
    forgotten: u64,
    fresh: u64,
}

impl Checked {
    fn new(policy: &'static Policy, capacity: u64, batch: u32, seed: u64) -> Self {
        let config = InstanceConfig { capacity_pages: capacity, batch, seed, tunables: Vec::new() };
        let instance = Instance::new(policy, &config).unwrap();
        Self { instance, capacity, requests: 0, forgotten: 0, fresh: 1 << 40 }
    }

    fn run(&mut self, keys: &[u64], tasks: &[u32]) {
        let times_ns: Vec<u64> =
            (0..keys.len() as u64).map(|i| (self.requests + i) * 777).collect();
        let mut hits = vec![2; keys.len()];
        let before = self.instance.stats().misses;
        let requests = Requests { keys, tasks, times_ns: &times_ns };
        self.instance.run(requests, Some(&mut hits)).unwrap();
        self.requests += keys.len() as u64;
        let missed = hits.iter().filter(|&&hit| hit == 0).count() as u64;
        assert!(hits.iter().all(|&hit| hit < 2));
        assert_eq!(missed, self.instance.stats().misses - before);
        let distinct: HashSet<&u64> = keys.iter().collect();
        let resident = self.instance.stats().resident;
        assert!(resident <= self.capacity);
        assert!(keys.is_empty() || missed + self.capacity >= distinct.len() as u64);
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Run(requests) => {
                let (keys, tasks): (Vec<u64>, Vec<u32>) = requests.iter().copied().unzip();
                self.run(&keys, &tasks);
            }
            Step::Scan(pages) => {
                let keys: Vec<u64> = (self.fresh..self.fresh + pages).collect();
                self.fresh += pages;
                let before = self.instance.stats().misses;
                self.run(&keys, &[]);
                assert_eq!(self.instance.stats().misses - before, *pages);
            }
            Step::Forget(keys) => {
                let before = self.instance.stats();
                keys.iter().for_each(|&key| self.instance.forget(key));
                let after = self.instance.stats();
                self.forgotten += before.resident - after.resident;
                assert_eq!((before.misses, before.evictions), (after.misses, after.evictions));
            }
            Step::Resize(capacity, batch) => {
                self.instance.resize(*capacity, *batch).unwrap();
                self.capacity = *capacity;
                assert!(self.instance.stats().resident <= *capacity);
            }
            Step::Tune(shares) => {
                let values = tuned(self.instance.policy(), shares);
                self.instance.set_tunables(&values).unwrap();
            }
        }
        self.check();
    }

    fn check(&mut self) {
        self.instance.check().unwrap();
        let stats = self.instance.stats();
        assert_eq!(stats.requests, self.requests);
        assert_eq!(stats.unlisted, 0, "a page was put on no list");
        let added = stats.misses - stats.refused;
        assert_eq!(stats.resident + stats.evictions + self.forgotten, added);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_policy_keeps_the_invariants(
        capacity in 1..300u64,
        batch in 1..=32u32,
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        for policy in policies() {
            let mut cache = Checked::new(policy, capacity, batch, seed);
            steps.iter().for_each(|step| cache.apply(step));
        }
    }

    #[test]
    fn one_seed_is_one_outcome(
        capacity in 1..200u64,
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..10),
    ) {
        for policy in policies() {
            let outcome = || {
                let mut cache = Checked::new(policy, capacity, 32, seed);
                steps.iter().for_each(|step| cache.apply(step));
                cache.instance.stats()
            };
            prop_assert_eq!(outcome(), outcome(), "{}", &policy.manifest.name);
        }
    }
}

/// Many instances at once, taking turns: the state of one is not the state of another.
#[test]
fn instances_do_not_share_state() {
    let turns: VecDeque<Vec<u64>> =
        (0..40u64).map(|turn| (0..100u64).map(|i| (turn * 31 + i * i) % 150).collect()).collect();
    for policy in policies() {
        let alone = |capacity| {
            let mut cache = Checked::new(policy, capacity, 8, 7);
            turns.iter().for_each(|keys| cache.run(keys, &[]));
            cache.instance.stats()
        };
        let capacities: Vec<u64> = (1..40).map(|i| i * 5).collect();
        let mut together: Vec<Checked> =
            capacities.iter().map(|&capacity| Checked::new(policy, capacity, 8, 7)).collect();
        for keys in &turns {
            together.iter_mut().for_each(|cache| cache.run(keys, &[]));
        }
        for (cache, capacity) in together.iter().zip(capacities) {
            assert_eq!(cache.instance.stats(), alone(capacity), "{}", policy.manifest.name);
        }
    }
}
