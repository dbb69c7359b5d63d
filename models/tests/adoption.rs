// SPDX-License-Identifier: Apache-2.0
//! Handing the pages of one policy to another, and the record of evictions, for every policy.
#![allow(clippy::unwrap_used)]

use cachepilot_models::hash::page_hash;
use cachepilot_models::policy::{Instance, InstanceConfig, Policy, Requests, find, policies};
use proptest::prelude::*;
use std::collections::HashSet;

fn instance(policy: &'static Policy, capacity_pages: u64) -> Instance {
    let config = InstanceConfig { capacity_pages, batch: 32, seed: 1, tunables: vec![] };
    Instance::new(policy, &config).unwrap()
}

/// Skewed accesses to `pages` pages.
fn accesses(count: u64, pages: u64) -> Vec<u64> {
    let rank = |i: u64| page_hash(i) % (1 + page_hash(!i) % pages);
    (0..count).map(rank).collect()
}

fn set(keys: &[u64]) -> HashSet<u64> {
    keys.iter().copied().collect()
}

#[test]
fn every_policy_hands_over_all_that_it_holds_and_every_policy_takes_it() {
    for from in policies() {
        let mut old = instance(from, 300);
        old.run(Requests::of_keys(&accesses(5_000, 1_000)), None).unwrap();
        let keys = old.resident_keys();
        assert_eq!(set(&keys).len() as u64, old.stats().resident, "{}", from.manifest.name);
        for to in policies() {
            let mut new = instance(to, 300);
            new.adopt(&keys).unwrap();
            let stats = new.stats();
            let names = (&from.manifest.name, &to.manifest.name);
            assert_eq!(set(&new.resident_keys()), set(&keys), "{names:?}");
            assert_eq!((stats.requests, stats.misses, stats.evictions), (0, 0, 0), "{names:?}");
            assert_eq!(stats.adopted, keys.len() as u64, "{names:?}");
            let mut hits = vec![0; keys.len()];
            new.run(Requests::of_keys(&keys), Some(&mut hits)).unwrap();
            assert!(hits.iter().all(|&hit| hit == 1), "{names:?}");
            new.check().unwrap();
        }
    }
}

#[test]
fn lru_hands_over_oldest_first_and_goes_on_as_if_nothing_had_been() {
    let lru = find("lru").unwrap();
    let mut old = instance(lru, 4);
    old.run(Requests::of_keys(&[1, 2, 3, 4, 2]), None).unwrap();
    assert_eq!(old.resident_keys(), [1, 3, 4, 2]);
    let mut new = instance(lru, 4);
    new.adopt(&old.resident_keys()).unwrap();
    assert_eq!(new.resident_keys(), old.resident_keys());
    let rest = accesses(1_000, 12);
    let run = |instance: &mut Instance| {
        let mut hits = vec![0; rest.len()];
        instance.run(Requests::of_keys(&rest), Some(&mut hits)).unwrap();
        hits
    };
    assert_eq!(run(&mut new), run(&mut old));
}

/// Pages that become LIR as they are taken over would keep those out that are read from then on until
/// each was missed twice.
#[test]
fn lirs_takes_what_is_read_after_a_swap_for_lir_and_not_what_it_took_over() {
    const LOOP_PAGES: u64 = 700;
    let mut lirs = instance(find("lirs").unwrap(), 1_000);
    lirs.adopt(&(10_000..11_000).collect::<Vec<_>>()).unwrap();
    let keys: Vec<u64> = (0..4 * LOOP_PAGES).map(|i| i % LOOP_PAGES).collect();
    lirs.run(Requests::of_keys(&keys), None).unwrap();
    assert_eq!(lirs.stats().misses, LOOP_PAGES);
}

#[test]
fn adopted_pages_that_do_not_fit_evict_others() {
    let mut small = instance(find("lru").unwrap(), 4);
    small.adopt(&[1, 2, 3, 4, 5, 6, 6]).unwrap();
    assert_eq!(small.resident_keys(), [3, 4, 5, 6]);
    assert_eq!((small.stats().adopted, small.stats().evictions), (6, 2));
    small.check().unwrap();
}

#[test]
fn the_log_of_evictions_is_bounded_and_says_what_it_lost() {
    let mut lru = instance(find("lru").unwrap(), 2);
    assert!(lru.take_evictions().entries.is_empty());
    assert!(lru.log_evictions(0).unwrap_err().to_string().starts_with("capacity: 0 is not in 1"));
    lru.log_evictions(2).unwrap();
    lru.run(Requests::of_keys(&[1, 2, 3, 4, 5]), None).unwrap();
    let taken = lru.take_evictions();
    let entries: Vec<_> = taken.entries.iter().map(|e| (e.key, e.request)).collect();
    assert_eq!((entries, taken.lost), (vec![(1, 2), (2, 3)], 1));
    assert!(lru.take_evictions().entries.is_empty());
}

proptest! {
    #[test]
    fn pages_added_and_not_removed_are_resident(
        policy in 0..policies().len(),
        capacity in 1u64..60,
        keys in prop::collection::vec(0u64..80, 1..400),
    ) {
        let mut cache = instance(&policies()[policy], capacity);
        cache.log_evictions(1_000).unwrap();
        let mut hits = vec![0; keys.len()];
        cache.run(Requests::of_keys(&keys), Some(&mut hits)).unwrap();
        let refused = cache.stats().refused;
        let evictions = cache.stats().evictions;
        let taken = cache.take_evictions();
        prop_assert_eq!(taken.entries.len() as u64, evictions);
        prop_assert!(taken.entries.iter().all(|e| e.request < keys.len() as u64));
        let misses = hits.iter().filter(|&&hit| hit == 0).count() as u64;
        let resident = cache.resident_keys();
        prop_assert_eq!(resident.len() as u64, misses - refused - evictions);
    }
}
