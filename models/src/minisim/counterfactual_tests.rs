// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::hash::threshold;
use crate::policy::{Instance, InstanceConfig, KERNEL_BATCH, find, resolve};
use proptest::prelude::*;

const ALL: u64 = u64::MAX;

fn of(names: &[&str], size: u64, threshold: u64) -> Counterfactuals {
    let policies = names.iter().map(|name| resolve(name).unwrap()).collect();
    Counterfactuals::new(policies, size, threshold, 1).unwrap()
}

fn skewed(count: u64, pages: u64) -> Vec<u64> {
    (0..count).map(|i| page_hash(i) % pages * (page_hash(i ^ 77) % pages) / pages).collect()
}

fn misses(counterfactuals: &Counterfactuals) -> Vec<f64> {
    let rows = counterfactuals.totals().misses;
    rows.chunks(GROUPS).map(|row| row.iter().sum()).collect()
}

/// Returns the misses of a plain simulation that uses the hashes as page keys, as the caches do.
fn plain(name: &str, keys: &[u64], size: u64) -> f64 {
    let config =
        InstanceConfig { capacity_pages: size, batch: KERNEL_BATCH, seed: 1, tunables: vec![] };
    let mut instance = Instance::new(find(name).unwrap(), &config).unwrap();
    let hashes: Vec<u64> = keys.iter().map(|&key| page_hash(key)).collect();
    instance.run(Requests::of_keys(&hashes), None).unwrap();
    instance.stats().misses as f64
}

proptest! {
    #[test]
    fn all_pages_sampled_it_is_the_full_simulation(
        count in 1u64..4000, pages in 20u64..400, size in 16u64..200,
    ) {
        let names = ["kernel_lru", "s3fifo", "lirs"];
        let mut found = of(&names, size, ALL);
        let keys = skewed(count, pages);
        for part in keys.chunks(97) {
            found.access(Requests::of_keys(part)).unwrap();
        }
        let exact: Vec<f64> = names.iter().map(|name| plain(name, &keys, size)).collect();
        for (one, other) in misses(&found).iter().zip(&exact) {
            prop_assert!((one - other).abs() < 1e-6 * count as f64, "{one} {other}");
        }
    }
}

#[test]
fn a_sample_estimates_misses_and_their_difference() {
    let names = ["kernel_lru", "s3fifo"];
    let keys = skewed(400_000, 20_000);
    let mut found = of(&names, 2000, threshold(0.1));
    found.access(Requests::of_keys(&keys)).unwrap();
    let exact: Vec<f64> = names.iter().map(|name| plain(name, &keys, 2000)).collect();
    let told = misses(&found);
    assert!((told[0] / exact[0] - 1.0).abs() < 0.1, "{told:?} {exact:?}");
    let (difference, expected) = (told[0] - told[1], exact[0] - exact[1]);
    assert!((difference / expected - 1.0).abs() < 0.5, "{told:?} {exact:?}");
    assert!((found.totals().accesses.iter().sum::<f64>() / 400_000.0 - 1.0).abs() < 0.2);
}

#[test]
fn a_rate_may_fall_and_rise() {
    let keys = skewed(60_000, 3000);
    let mut found = of(&["kernel_lru", "sieve"], 300, ALL);
    for (part, rate) in keys.chunks(10_000).zip([0.125, 1.0, 1.0, 1.0, 0.5]) {
        found.access(Requests::of_keys(part)).unwrap();
        found.set_threshold(threshold(rate)).unwrap();
    }
    // The caches at rate 1 took over during the third part, and the totals restarted.
    assert_eq!((found.totals().generation, found.rate()), (2, 0.5));
    assert_eq!(found.totals().accesses.iter().sum::<f64>(), 20_000.0);
    let mut below = found.present.cells[0].resident_keys();
    below.retain(|&key| key >= threshold(0.5));
    assert!(below.is_empty());
}

#[test]
fn a_small_raise_is_followed_only_when_it_was_announced() {
    let mut found = of(&["kernel_lru"], 200, threshold(0.125));
    let keys = skewed(40_000, 4000);
    let mut told = |rate: f64, is_announced: bool| {
        if is_announced {
            found.expect_more();
        }
        found.set_threshold(threshold(rate)).unwrap();
        found.access(Requests::of_keys(&keys)).unwrap();
        (found.rate() - rate).abs() < 1e-9
    };
    assert!(!told(0.25, false) && told(0.25, true));
    assert!(!told(0.5, false), "announced once");
}

#[test]
fn sizes_are_followed_at_once() {
    let mut found = of(&["kernel_lru"], 300, ALL);
    found.access(Requests::of_keys(&skewed(20_000, 3000))).unwrap();
    for (size, first) in [(100, 3000), (500, 6000)] {
        found.set_size(size).unwrap();
        let unseen: Vec<u64> = (first..first + 1000).collect();
        found.access(Requests::of_keys(&unseen)).unwrap();
        let resident = found.present.cells[0].stats().resident;
        assert!((size - 2 * u64::from(KERNEL_BATCH)..=size).contains(&resident), "{resident}");
    }
}

#[test]
fn a_policy_counts_as_if_swapped_in_with_the_phase_when_it_misses_less_so() {
    // A loop larger than the cache, over new pages. The `lirs` that ran from the start keeps the
    // old pages and misses every access. A `lirs` swapped in now does not.
    let mut found = of(&["kernel_lru", "lirs"], 100, ALL);
    let old: Vec<u64> = (0..10_000).map(|i| i % 90).collect();
    let new: Vec<u64> = (0..10_000).map(|i| 1_000_000 + i % 150).collect();
    found.access(Requests::of_keys(&old)).unwrap();
    found.begin_phase("kernel_lru").unwrap();
    let before = misses(&found);
    for part in new.chunks(50) {
        found.access(Requests::of_keys(part)).unwrap();
    }
    let told = misses(&found);
    assert!(told[1] - before[1] < 0.6 * (told[0] - before[0]), "{before:?} {told:?}");
    assert_eq!(found.totals().generation, 1);
    found.begin_phase("kernel_lru").unwrap();
    let resident = found.present.cells[1].resident_keys();
    assert!(resident.iter().filter(|&&key| old.iter().all(|&k| page_hash(k) != key)).count() > 50);
}

#[test]
fn a_pinned_policy_joins_and_totals_restart() {
    let mut found = of(&["kernel_lru"], 100, ALL);
    found.access(Requests::of_keys(&skewed(1000, 300))).unwrap();
    found.include(resolve("mru").unwrap()).unwrap();
    assert_eq!(found.policies().collect::<Vec<_>>(), ["kernel_lru", "mru"]);
    let totals = found.totals();
    assert_eq!((totals.generation, totals.misses.iter().sum::<f64>()), (2, 0.0));
    found.include(resolve("mru").unwrap()).unwrap();
    assert_eq!(found.totals().generation, 2);
}

#[test]
fn a_removed_policy_leaves_the_others_unchanged() {
    let (mut found, mut without) =
        (of(&["kernel_lru", "mru", "lirs"], 100, ALL), of(&["kernel_lru", "lirs"], 100, ALL));
    let keys = skewed(4000, 300);
    for (i, part) in keys.chunks(1000).enumerate() {
        for caches in [&mut found, &mut without] {
            caches.access(Requests::of_keys(part)).unwrap();
            if i == 1 {
                caches.begin_phase("kernel_lru").unwrap();
            }
        }
        if i == 2 {
            found.exclude("mru");
        }
    }
    assert_eq!(found.policies().collect::<Vec<_>>(), ["kernel_lru", "lirs"]);
    assert_eq!(found.totals(), without.totals());
    found.exclude("lirs");
    found.exclude("kernel_lru");
    assert_eq!(found.policies().count(), 1, "the last one stays");
}

#[test]
fn a_variant_is_simulated_beside_its_policy_and_may_win() {
    let policy = find("s3fifo").unwrap();
    let tunables = policy.manifest.tunable_values([("small_pct", 80)]).unwrap();
    let wide = Candidate { name: "s3fifo:wide".into(), policy, tunables };
    let policies = vec![resolve("kernel_lru").unwrap(), policy.into(), wide.clone()];
    let mut found = Counterfactuals::new(policies, 100, ALL, 1).unwrap();
    // Each page comes back once, after 60 others: too late for a small queue of 10 pages.
    let keys: Vec<u64> =
        (0..40_000).map(|i| if i % 2 == 0 { i } else { i.max(121) - 121 }).collect();
    found.access(Requests::of_keys(&keys)).unwrap();
    assert_eq!(found.policies().last(), Some("s3fifo:wide"));
    let of = |tunables: &[u32]| {
        let (capacity_pages, batch, seed) = (100, KERNEL_BATCH, 1);
        let config = InstanceConfig { capacity_pages, batch, seed, tunables: tunables.to_vec() };
        let mut instance = Instance::new(policy, &config).unwrap();
        let hashes: Vec<u64> = keys.iter().map(|&key| page_hash(key)).collect();
        instance.run(Requests::of_keys(&hashes), None).unwrap();
        instance.stats().misses as f64
    };
    let told: Vec<f64> = misses(&found).into_iter().map(f64::round).collect();
    assert_eq!(told[1..], [of(&[]), of(&wide.tunables)]);
    assert!(told[2] < told[1] - 100.0, "{told:?}");
}

#[test]
fn tunables_that_change_hold_in_all_caches() {
    let mut listed = resolve("admission").unwrap();
    listed.tunables[0] = 7;
    let mut found = of(&["kernel_lru", "admission"], 100, ALL);
    found.begin_phase("kernel_lru").unwrap();
    found.set_tunables(&listed).unwrap();
    let keys: Vec<u64> = (0..1000).map(|i| i % 50).collect();
    let mut of_task = |tasks: &[u32]| {
        found.access(Requests { keys: &keys, tasks, times_ns: &[] }).unwrap();
        misses(&found)[1]
    };
    assert_eq!(of_task(&[7; 1000]), 1000.0, "what it reads is not cached");
    assert_eq!(of_task(&[8; 1000]) - 1000.0, 50.0);
}

#[test]
fn nothing_to_simulate_is_refused() {
    let lru = || vec![resolve("lru").unwrap()];
    assert!(Counterfactuals::new(vec![], 1, 1, 1).is_err());
    assert!(Counterfactuals::new(lru(), 0, 1, 1).is_err());
    assert!(Counterfactuals::new(lru(), 1, 0, 1).is_err());
}

/// Runs 50 rounds over 80 permanent pages and 15 pages of a temporary file that is written, read
/// and removed.
fn rounds(mut round: impl FnMut(&[u64], &[u64])) {
    for i in 0..50_u64 {
        let temporary: Vec<u64> = (0..15).map(|page| 1000 + i * 100 + page).collect();
        let all: Vec<u64> = (0..80).chain(temporary.iter().copied()).collect();
        round(&all, &temporary);
    }
}

#[test]
fn pages_of_removed_files_make_room() {
    let missed = |forgets: bool| {
        let mut found = of(&["lru", "kernel_lru", "s3fifo", "lirs"], 90, ALL);
        rounds(|all, temporary| {
            found.access(Requests::of_keys(all)).unwrap();
            if forgets {
                found.forget(temporary);
            }
        });
        misses(&found)
    };
    let (with, without) = (missed(true), missed(false));
    // Misses per round: the 15 new pages, and the 5 pages that they push out of a cache of 90.
    assert_eq!(with[0].round(), 80.0 + 50.0 * 15.0 + 49.0 * 5.0);
    assert_eq!(without[0].round(), 50.0 * 95.0, "a loop over more pages than fit");
    with.iter().for_each(|&missed| assert!(missed <= 50.0 * 25.0, "{with:?}"));
}

#[test]
fn pages_kept_by_others_are_hits_of_every_policy() {
    let mut found = of(&["lru", "mru"], 10, ALL);
    found.access(Requests::of_keys(&[1, 2])).unwrap();
    found.serve(&[3, 4, 5]);
    assert_eq!(found.totals().accesses.iter().sum::<f64>(), 5.0);
    assert_eq!(misses(&found), [2.0, 2.0]);
}
