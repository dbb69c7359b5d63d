// SPDX-License-Identifier: Apache-2.0
//! Requests in steps, against the same requests in one loop.

#![allow(clippy::unwrap_used)]

use cachepilot_models::hash::page_hash;
use cachepilot_models::policy::{Instance, InstanceConfig, Requests, find, policies};

const CAPACITY_PAGES: u64 = 100;

fn instance(policy: &str) -> Instance {
    let config =
        InstanceConfig { capacity_pages: CAPACITY_PAGES, batch: 8, seed: 1, tunables: Vec::new() };
    Instance::new(find(policy).unwrap(), &config).unwrap()
}

/// Half of them to few pages, of tasks of which one is often kept out.
fn requests() -> (Vec<u64>, Vec<u32>, Vec<u64>) {
    let key = |i: u64| page_hash(i) % if i.is_multiple_of(2) { 60 } else { 2000 };
    let keys = (0..20_000).map(key).collect();
    let tasks = (0..20_000).map(|i| 1 + i % 3).collect();
    let times_ns = (0..20_000).map(|i| i * 700 + page_hash(i) % 300).collect();
    (keys, tasks, times_ns)
}

#[test]
fn a_miss_in_steps_is_a_miss_in_one() {
    let (keys, tasks, times_ns) = requests();
    for policy in policies() {
        let name = &policy.manifest.name;
        let mut whole = instance(name);
        let mut hits = vec![0; keys.len()];
        let columns = Requests { keys: &keys, tasks: &tasks, times_ns: &times_ns };
        whole.run(columns, Some(&mut hits)).unwrap();
        let mut stepwise = instance(name);
        for (i, &key) in keys.iter().enumerate() {
            stepwise.begin_request(tasks[i], Some(times_ns[i]));
            let hit = stepwise.holds(key);
            assert_eq!(hit, hits[i] != 0, "{name}, request {i}");
            if !hit {
                stepwise.add_page(key, false).unwrap();
            }
            stepwise.access_page(key);
            stepwise.end_request(1);
        }
        stepwise.check().unwrap();
        assert_eq!(stepwise.stats(), whole.stats(), "{name}");
    }
}

#[test]
fn the_first_access_to_a_page_that_was_read_ahead_is_no_second_one() {
    // Under clock a page with a second access is passed over once.
    let resident = |accesses: usize| {
        let mut cache = instance("clock");
        cache.begin_request(0, None);
        cache.add_page(0, true).unwrap();
        (0..accesses).for_each(|_| cache.access_page(0));
        (1..=CAPACITY_PAGES).for_each(|key| cache.add_page(key, true).unwrap());
        cache.end_request(1);
        cache.check().unwrap();
        cache.holds(0)
    };
    assert_eq!([0, 1, 2].map(resident), [false, false, true]);
}

#[test]
fn a_page_that_is_not_admitted_goes_with_its_first_reader() {
    let policy = find("admission").unwrap();
    let tunables = policy.manifest.tunable_values([("filtered_tasks.0", 7)]).unwrap();
    let config = InstanceConfig { capacity_pages: CAPACITY_PAGES, batch: 8, seed: 1, tunables };
    let mut cache = Instance::new(policy, &config).unwrap();
    for (task, stays) in [(7, false), (8, true)] {
        let key = u64::from(task);
        cache.begin_request(task, None);
        cache.add_page(key, true).unwrap();
        assert!(cache.holds(key));
        cache.access_page(key);
        cache.end_request(1);
        assert_eq!(cache.holds(key), stays);
        cache.check().unwrap();
    }
    assert_eq!(cache.stats().evictions, 0);
}

#[test]
fn pages_read_ahead_and_not_used_are_spared_by_a_policy_that_asks() {
    // mru evicts the newest, but not those that wait for their reader.
    let left_of_newest = |ahead: bool| {
        let mut cache = instance("mru");
        cache.begin_request(0, None);
        for key in 0..=CAPACITY_PAGES {
            cache.add_page(key, ahead).unwrap();
            if !ahead {
                cache.access_page(key);
            }
        }
        cache.end_request(1);
        (CAPACITY_PAGES - 8..CAPACITY_PAGES).filter(|&key| cache.holds(key)).count()
    };
    assert!(left_of_newest(true) > left_of_newest(false));
}
