// SPDX-License-Identifier: Apache-2.0
//! Tenants whose workload changes, beside a page cache that is simulated in full.

use super::*;
use crate::curves::{CurvesSettings, Measured, PAGE_BYTES, predict};
use crate::wire;
use cachepilot_models::policy::{Instance, InstanceConfig, KERNEL_BATCH, find};

const SECOND: Duration = Duration::from_secs(1);
const CACHED: u64 = 8192;
const FAST: u64 = 60_000;
const SLOW: u64 = 200;

/// The page of each access, by its number.
type Key<'a> = &'a dyn Fn(u64) -> u64;

/// A tenant and its page cache.
struct Node {
    tenant: TenantCurves,
    cache: Instance,
    policy: &'static str,
    pages: u64,
    accesses: u64,
}

impl Node {
    fn new() -> Self {
        let settings = CurvesSettings {
            policies: ["fifo", "mru", "s3fifo"].map(String::from).to_vec(),
            ..CurvesSettings::default()
        };
        let tenant = TenantCurves::new(&settings.config(4 * CACHED * PAGE_BYTES)).unwrap();
        Self {
            tenant,
            cache: cache("kernel_lru", CACHED),
            policy: "default",
            pages: CACHED,
            accesses: 0,
        }
    }

    /// A second of so many accesses; whether curves are trusted, and why not.
    fn second(&mut self, per_s: u64, key: Key<'_>) -> (bool, String) {
        let keys: Vec<u64> = (self.accesses..self.accesses + per_s).map(key).collect();
        self.accesses += per_s;
        let before = self.cache.stats().misses;
        self.cache.run(Requests::of_keys(&keys), None).unwrap();
        let below = self.tenant.threshold();
        self.tenant.set_kernel_threshold(below).unwrap();
        let sampled: Vec<u64> = keys.into_iter().filter(|&k| page_hash(k) < below).collect();
        self.tenant.feed_sampled(Requests::of_keys(&sampled), per_s).unwrap();
        self.tenant.advance(SECOND).unwrap();
        let (trusted, distrust) = self.tenant.judge(&Measured {
            policy: self.policy,
            size_bytes: self.pages * PAGE_BYTES,
            accesses: per_s,
            misses: self.cache.stats().misses - before,
            dropped: 0,
        });
        let told = (trusted, distrust.to_owned());
        self.tenant.counterfactuals(self.policy, self.pages * PAGE_BYTES).unwrap();
        told
    }

    /// What the present curves say of the default at the size of the page cache.
    fn predicted(&mut self) -> f64 {
        let curves = self.tenant.curves().unwrap();
        predict(&curves, wire::DEFAULT_POLICY, CACHED * PAGE_BYTES).unwrap().0
    }

    /// Seconds until curves are trusted that say about this miss ratio.
    fn seconds_until(&mut self, per_s: u64, key: Key<'_>, ratio: f64) -> u64 {
        let mut learnt = |_: &u64| {
            let trusted = self.second(per_s, key).0;
            trusted && (self.predicted() - ratio).abs() < 0.2
        };
        (1..=200).find(|second| learnt(second)).unwrap()
    }

    /// A node whose tenant had this load for so long that its curves are trusted.
    fn after(per_s: u64, key: Key<'_>) -> Self {
        let mut node = Self::new();
        (0..40).for_each(|_| drop(node.second(per_s, key)));
        assert_eq!(node.second(per_s, key), (true, String::new()));
        node
    }

    /// Of so many seconds, those that were not trusted; no regime may begin.
    fn untrusted(&mut self, seconds: usize, per_s: u64, key: Key<'_>) -> usize {
        let phase = self.tenant.phase();
        let untrusted = (0..seconds).filter(|_| !self.second(per_s, key).0).count();
        assert_eq!(self.tenant.phase(), phase, "no regime began");
        untrusted
    }
}

fn cache(policy: &str, capacity_pages: u64) -> Instance {
    let config = InstanceConfig { capacity_pages, batch: KERNEL_BATCH, seed: 1, tunables: vec![] };
    Instance::new(find(policy).unwrap(), &config).unwrap()
}

/// Uniform over a set that the page cache holds nine tenths of.
fn hot(i: u64) -> u64 {
    page_hash(i) % 9000
}

/// Ever new pages.
fn scan(i: u64) -> u64 {
    (1 << 40) | i
}

/// A set that the page cache holds four times.
fn small(i: u64) -> u64 {
    (1 << 41) | (page_hash(i) % 2000)
}

/// A set that the page cache holds a third of.
fn large(i: u64) -> u64 {
    (1 << 42) | (page_hash(i) % 24_000)
}

#[test]
fn a_fast_regime_that_becomes_a_slow_one_is_forgotten_within_seconds() {
    // A quarter of the pages of the cache must be seen, or the set of 2000 until few are new.
    let next: [(Key<'_>, f64, u64); 3] = [(&scan, 1.0, 30), (&small, 0.0, 40), (&large, 0.66, 30)];
    for (key, ratio, within) in next {
        let mut node = Node::after(FAST, &hot);
        let took = node.seconds_until(SLOW, key, ratio);
        assert!(took <= within, "{took} s until {ratio}");
        assert_eq!(node.tenant.phase(), 1);
    }
}

#[test]
fn the_same_regime_at_another_rate_goes_on() {
    let mut node = Node::after(FAST, &hot);
    node.untrusted(600, SLOW, &hot);
    node.untrusted(30, FAST, &hot);
}

#[test]
fn a_page_cache_that_fills_begins_no_regime() {
    let mut node = Node::after(5000, &hot);
    // It is as empty as in the beginning, under curves that know the working set.
    node.cache = cache("kernel_lru", CACHED);
    assert!(node.untrusted(60, 500, &hot) > 0);
}

#[test]
fn another_policy_and_another_limit_begin_no_regime() {
    // A page cache that behaves as no policy on the curves does, or not yet.
    let mut node = Node::after(FAST, &hot);
    (node.cache, node.policy) = (cache("kernel_lru", 500), "s3fifo");
    assert!(node.untrusted(60, SLOW, &hot) > 30);

    let mut node = Node::after(FAST, &large);
    node.pages *= 3;
    node.cache.resize(node.pages, KERNEL_BATCH).unwrap();
    assert!(node.untrusted(60, SLOW, &large) > 30, "it fills");
}

/// The accesses are the same and pages are taken from the page cache: no other accesses came.
#[test]
fn a_page_cache_that_others_take_pages_from_begins_no_regime() {
    let mut node = Node::after(FAST, &hot);
    node.cache = cache("kernel_lru", 500);
    assert!(node.untrusted(300, 2000, &hot) > 250);
}
