// SPDX-License-Identifier: Apache-2.0
//! SHARDS against exact curves: equality where it samples everything, error and error bars where
//! it does not.

#![allow(clippy::unwrap_used)]

mod common;

use cachepilot_models::curve::{Curve, size_grid};
use cachepilot_models::exact::ExactLru;
use cachepilot_models::shards::{FixedRateShards, FixedSizeShards, Options};
use common::Trace;
use proptest::prelude::*;

const SEEDS: u64 = 4;

fn fixed_rate(keys: &[u64], rate: f64, options: Options, sizes: &[u64]) -> Curve {
    let mut shards = FixedRateShards::new(rate, options).unwrap();
    keys.chunks(5000).for_each(|chunk| shards.access(chunk));
    shards.curve(sizes).unwrap()
}

fn fixed_size(keys: &[u64], s_max: usize, options: Options, sizes: &[u64]) -> Curve {
    let mut shards = FixedSizeShards::new(s_max, options).unwrap();
    keys.chunks(5000).for_each(|chunk| shards.access(chunk));
    assert!(shards.sampled_pages() <= s_max as u64);
    shards.curve(sizes).unwrap()
}

fn exact(keys: &[u64], half_life: Option<u64>) -> Curve {
    let mut exact = ExactLru::new(half_life).unwrap();
    exact.access(keys);
    exact.curve(&size_grid(exact.footprint_pages(), 100)).unwrap()
}

fn mean_error(estimate: &Curve, truth: &Curve) -> f64 {
    let pairs = estimate.miss_ratio.iter().zip(&truth.miss_ratio);
    pairs.map(|(e, t)| (e - t).abs()).sum::<f64>() / truth.miss_ratio.len() as f64
}

fn keys_with_reuse() -> impl Strategy<Value = Vec<u64>> {
    let key = (0.0..1.0f64).prop_map(|u| (u * u * 700.0) as u64);
    prop::collection::vec(key, 1..4000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sampling_everything_is_exact(
        keys in keys_with_reuse(),
        half_life in prop::option::of(1u64..10_000),
        seed in any::<u64>(),
    ) {
        let truth = exact(&keys, half_life);
        let options = Options { seed, half_life };
        let rate = fixed_rate(&keys, 1.0, options, &truth.sizes_pages);
        let size = fixed_size(&keys, 700, options, &truth.sizes_pages);
        // The steps in which weights grow begin at block boundaries, which differ with a half-life.
        let tolerance = if half_life.is_some() { 0.02 } else { 1e-12 };
        for curve in [rate, size] {
            prop_assert_eq!(curve.sampled, keys.len() as u64);
            prop_assert!(curve.stderr.iter().all(|&e| e == 0.0));
            for (e, t) in curve.miss_ratio.iter().zip(&truth.miss_ratio) {
                prop_assert!((e - t).abs() <= tolerance, "{} {}", e, t);
            }
        }
    }

    #[test]
    fn a_fixed_size_is_never_exceeded(keys in keys_with_reuse(), s_max in 1usize..300) {
        let mut shards = FixedSizeShards::new(s_max, Options::default()).unwrap();
        let mut last_rate = 1.0;
        for chunk in keys.chunks(37) {
            shards.access(chunk);
            prop_assert!(shards.sampled_pages() <= s_max as u64);
            prop_assert!(shards.rate() <= last_rate);
            last_rate = shards.rate();
        }
        let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len();
        prop_assert_eq!(last_rate < 1.0, distinct > s_max);
    }

    #[test]
    fn any_curve_is_a_non_increasing_ratio(
        keys in keys_with_reuse(),
        rate in 0.05..1.0f64,
        s_max in 1usize..300,
        seed in any::<u64>(),
    ) {
        let sizes = size_grid(900, 60);
        let options = Options { seed, half_life: None };
        let mut curves = vec![fixed_size(&keys, s_max, options, &sizes)];
        let mut shards = FixedRateShards::new(rate, options).unwrap();
        shards.access(&keys);
        curves.extend(shards.curve(&sizes));
        for curve in curves {
            prop_assert!(curve.miss_ratio.windows(2).all(|w| w[0] >= w[1]));
            prop_assert!(curve.miss_ratio.iter().all(|r| (0.0..=1.0).contains(r)));
            prop_assert!((0..sizes.len()).all(|i| curve.error_bar(i).is_finite()));
        }
    }
}

#[test]
fn arguments_outside_their_range_are_refused() {
    for rate in [0.0, -0.1, 1.0001, f64::NAN] {
        let message = FixedRateShards::new(rate, Options::default()).err().unwrap().to_string();
        assert_eq!(message, format!("rate: {rate} is outside (0, 1]"));
    }
    assert!(FixedSizeShards::new(0, Options::default()).is_err());
    let unfed = FixedSizeShards::new(10, Options::default()).unwrap().curve(&[1]).unwrap_err();
    assert_eq!(unfed.to_string(), "trace: has no accesses, so it has no curve");
    let mut unlucky = FixedRateShards::new(1e-12, Options::default()).unwrap();
    unlucky.access(&[1, 2, 3]);
    let message = unlucky.curve(&[1]).unwrap_err().to_string();
    assert_eq!(message, "rate: none of 3 accesses was sampled; raise the rate");
}

#[test]
fn after_a_phase_change_the_aged_curve_is_that_of_the_new_phase() {
    let old: Vec<u64> = (0..300_000u64).map(|i| (1 << 40) + i % 20_000).collect();
    let new = common::zipf(600_000, 30_000, 0.8, 1).keys;
    let truth = exact(&new, Some(30_000));
    let both = [old, new].concat();
    let aged = Options { half_life: Some(30_000), seed: 0 };
    for options in [aged, Options::default()] {
        let rate = fixed_rate(&both, 0.1, options, &truth.sizes_pages);
        let size = fixed_size(&both, 2_000, options, &truth.sizes_pages);
        for curve in [rate, size] {
            let error = mean_error(&curve, &truth);
            assert_eq!(error < 0.03, options.half_life.is_some(), "{error}");
            println!("half-life {:?}: mean error {error:.4}", options.half_life);
        }
    }
}

/// For both samplers, fixed rate first: mean error of each trace over the seeds, and the share of
/// all points within their error bars.
fn accuracy(traces: &[Trace]) -> (Vec<[f64; 2]>, [f64; 2]) {
    let mut errors = Vec::new();
    let (mut covered, mut points) = ([0, 0], 0);
    for trace in traces {
        let truth = exact(&trace.keys, None);
        let mut sums = [0.0; 2];
        let mut half_widths = [0.0; 2];
        for seed in 0..SEEDS {
            let options = Options { seed, half_life: None };
            let rate = fixed_rate(&trace.keys, 0.01, options, &truth.sizes_pages);
            let size = fixed_size(&trace.keys, 8192, options, &truth.sizes_pages);
            for (i, curve) in [rate, size].iter().enumerate() {
                sums[i] += mean_error(curve, &truth);
                for (point, ratio) in truth.miss_ratio.iter().enumerate() {
                    let bar = curve.error_bar(point);
                    covered[i] += u64::from((curve.miss_ratio[point] - ratio).abs() <= bar);
                    half_widths[i] += bar;
                }
            }
            points += truth.miss_ratio.len() as u64;
        }
        let all = SEEDS as f64 * truth.miss_ratio.len() as f64;
        let (error, bar) = (sums.map(|sum| sum / SEEDS as f64), half_widths.map(|sum| sum / all));
        println!(
            "{:18} R=0.01, s_max=8192: mean error {error:.4?}, error bar {bar:.4?}",
            trace.name
        );
        errors.push(error);
    }
    let coverage = covered.map(|count| count as f64 / points as f64);
    println!("points within error bars: {coverage:.3?}");
    (errors, coverage)
}

fn assert_accurate(errors: &[[f64; 2]]) {
    for sampler in 0..2 {
        let of_sampler: Vec<f64> = errors.iter().map(|e| e[sampler]).collect();
        let mean = of_sampler.iter().sum::<f64>() / of_sampler.len() as f64;
        let worst = of_sampler.iter().copied().fold(0.0, f64::max);
        assert!(mean <= 0.01 && worst <= 0.03, "sampler {sampler}: mean {mean}, worst {worst}");
    }
}

#[test]
fn synthetic_traces_are_within_the_stated_error_and_error_bars() {
    let traces = [0.8, 1.0, 1.2].map(|alpha| common::zipf(1_500_000, 300_000, alpha, 1));
    let (errors, coverage) = accuracy(&traces);
    assert_accurate(&errors);
    assert!(coverage.iter().all(|&share| share >= 0.9), "{coverage:?}");
}

#[test]
fn recorded_traces_are_within_the_stated_error_and_error_bars() {
    let mut traces = common::recorded(20_000);
    if traces.is_empty() {
        return;
    }
    traces.sort_by_key(|trace| trace.distinct < 100_000);
    let large = traces.iter().filter(|trace| trace.distinct >= 100_000).count();
    let (errors, coverage) = accuracy(&traces);
    assert_accurate(&errors[..large]);
    assert!(coverage.iter().all(|&share| share >= 0.9), "{coverage:?}");
}
