// SPDX-License-Identifier: Apache-2.0
//! What the online bank makes of pages that do not exist any more, and of pages that are in memory
//! on somebody else's account.
#![allow(clippy::unwrap_used)]

use cachepilot_models::minisim::{OnlineBank, OnlineConfig};
use cachepilot_models::policy::{Requests, resolve};

const ALL: u64 = u64::MAX;
const NAMES: [&str; 3] = ["lru", "kernel_lru", "s3fifo"];
/// Pages that stay, and pages of a file that each round writes, reads and removes.
const HOT: u64 = 80;
const TEMPORARY: u64 = 15;
const SIZES: [u64; 2] = [40, 90];

fn bank() -> OnlineBank {
    let config = OnlineConfig {
        policies: NAMES.iter().map(|name| resolve(name).unwrap()).collect(),
        sizes_pages: SIZES.to_vec(),
        stride: 1,
        half_life: (4000, 4000),
        min_samples: 1,
        seed: 1,
    };
    OnlineBank::new(config, ALL, ALL).unwrap()
}

/// Miss ratios at the larger size, by policy.
fn at_the_larger(bank: &mut OnlineBank) -> Vec<f64> {
    bank.curves().unwrap().iter().map(|curve| curve.miss_ratio[1]).collect()
}

fn temporary(round: u64) -> Vec<u64> {
    (0..TEMPORARY).map(|page| 10_000 + round * 100 + page).collect()
}

#[test]
fn pages_of_removed_files_take_no_room() {
    let ratios = |forgets: bool| {
        let mut bank = bank();
        for round in 0..400 {
            let temporary = temporary(round);
            let keys: Vec<u64> = (0..HOT).chain(temporary.iter().copied()).collect();
            bank.access(Requests::of_keys(&keys), keys.len() as u64).unwrap();
            if forgets {
                bank.forget(&temporary).unwrap();
            }
        }
        at_the_larger(&mut bank)
    };
    let share = |pages: u64| pages as f64 / (HOT + TEMPORARY) as f64;
    // Those that are new miss, and as many as these push out.
    let (least, most) = (share(TEMPORARY) - 0.02, share(2 * TEMPORARY) + 0.02);
    let (with, without) = (ratios(true), ratios(false));
    assert!((without[0] - 1.0).abs() < 0.02, "a loop over more pages than fit: {without:?}");
    with.iter().for_each(|ratio| assert!((least..most).contains(ratio), "{with:?}"));
}

#[test]
fn pages_kept_by_others_hit_at_every_size() {
    let mut bank = bank();
    let keys: Vec<u64> = (0..HOT).collect();
    let shared: Vec<u64> = (5000..5000 + 3 * HOT).collect();
    for _ in 0..400 {
        bank.access(Requests::of_keys(&keys), (keys.len() + shared.len()) as u64).unwrap();
        bank.serve(&shared);
    }
    let curves = bank.curves().unwrap();
    let lru = &curves[0];
    assert!((lru.miss_ratio[0] - 0.25).abs() < 0.01, "a quarter misses: {:?}", lru.miss_ratio);
    assert!(lru.miss_ratio[1] < 0.01, "{:?}", lru.miss_ratio);
    assert!(lru.stderr[0] < 0.02, "nothing about it is uncertain: {:?}", lru.stderr);
}
