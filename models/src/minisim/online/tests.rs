// SPDX-License-Identifier: Apache-2.0
//! Tests of the arguments of a bank.

use super::*;
use crate::policy::resolve;

fn config() -> OnlineConfig {
    OnlineConfig {
        policies: vec![resolve("lru").unwrap()],
        sizes_pages: vec![40, 90],
        stride: 1,
        half_life: (4000, 4000),
        min_samples: 1,
        seed: 1,
    }
}

#[test]
fn what_is_outside_its_range_is_named_with_it() {
    let refused = |config: OnlineConfig, threshold, small_threshold| {
        OnlineBank::new(config, threshold, small_threshold).err().unwrap().to_string()
    };
    let nothing = "bank: needs at least one policy and one size";
    assert_eq!(refused(OnlineConfig { policies: vec![], ..config() }, 8, 4), nothing);
    assert_eq!(refused(OnlineConfig { sizes_pages: vec![], ..config() }, 8, 4), nothing);
    let no_stride = OnlineConfig { stride: 0, ..config() };
    assert_eq!(refused(no_stride, 8, 4), "stride: 0 is outside 1..");
    assert_eq!(refused(config(), 0, 4), "threshold: 0 is outside 1..");
    assert_eq!(refused(config(), 8, 0), "small_threshold: 0 is outside 1..");
}

#[test]
fn the_small_sample_is_part_of_the_large_one() {
    let bank = OnlineBank::new(config(), 1 << 60, 1 << 62).unwrap();
    assert_eq!((bank.rate(), bank.small_rate()), (1.0 / 16.0, 1.0 / 16.0));
}

#[test]
fn a_threshold_of_0_is_refused_later_too() {
    let mut bank = OnlineBank::new(config(), 1 << 62, 1 << 60).unwrap();
    let refused = "threshold: 0 is outside 1..";
    assert_eq!(bank.lower(0).unwrap_err().to_string(), refused);
    assert_eq!(bank.lower_small(0).unwrap_err().to_string(), refused);
    assert_eq!((bank.rate(), bank.small_rate()), (0.25, 1.0 / 16.0));
}
