// SPDX-License-Identifier: Apache-2.0
//! Curves as messages, and their prediction for one policy at one size.

use super::settings::PAGE_BYTES;
use crate::wire;
use cachepilot_models::curve::Curve;

/// Curves are the same if every point differs by less than this, or by less than `SAME_BARS` of its
/// error bar. Every new generation may move memory, so curves must not change without need.
const SAME: f32 = 0.004;
const SAME_BARS: f32 = 0.5;
/// The share of a difference within the error bars that is taken over at a time.
const SMOOTHING: f32 = 0.5;
/// A greater difference between two neighbouring sizes of the grid is a cliff whose position is
/// unknown.
const CLIFF: f64 = 0.3;

/// The message for `curves`, one per name.
#[must_use]
pub fn publish(names: &[String], curves: &[Curve]) -> wire::Curves {
    let sizes = curves.first().map_or(&[][..], |curve| &curve.sizes_pages);
    let column = |bar: fn(&Curve, usize) -> f64| -> Vec<f32> {
        let row = |curve| (0..sizes.len()).map(move |point| bar(curve, point).min(1.0) as f32);
        curves.iter().flat_map(row).collect()
    };
    wire::Curves {
        generation: 0,
        policies: names.to_vec(),
        sizes_bytes: sizes.iter().map(|pages| pages * PAGE_BYTES).collect(),
        miss_ratio: curves.iter().flat_map(|c| &c.miss_ratio).map(|&m| m as f32).collect(),
        error_bar: column(Curve::error_bar),
        step_bar: column(Curve::step_bar),
        sampled: 0,
        rate: 0.0,
    }
}

/// Moves `new` towards `old` wherever the two differ by no more than their error bars.
pub(super) fn smooth(old: &wire::Curves, new: &mut wire::Curves) {
    if old.miss_ratio.len() != new.miss_ratio.len() {
        return;
    }
    let seen = steps(new);
    let bars = old.error_bar.iter().zip(&new.error_bar).map(|(old, new)| old.max(*new));
    for ((new, old), bar) in new.miss_ratio.iter_mut().zip(&old.miss_ratio).zip(bars) {
        if (*new - old).abs() <= bar {
            *new = old + (*new - old) * SMOOTHING;
        }
    }
    let told = steps(new);
    let moved = seen.iter().zip(&told).map(|(seen, told)| (seen - told).abs());
    for ((bar, old), moved) in new.step_bar.iter_mut().zip(&old.step_bar).zip(moved) {
        // A step within its bar is smoothed as well. The part beyond that, by which smoothing moved
        // two neighbouring points apart, does not come from an earlier step, so the bar grows by
        // it.
        let apart = (moved - (1.0 - SMOOTHING) * bar.max(*old)).max(0.0);
        *bar = (*bar + apart).min(1.0);
    }
}

/// The difference between each point and the next smaller size. The first point of each row stays
/// as it is.
pub(super) fn steps(curves: &wire::Curves) -> Vec<f32> {
    let (sizes, ratios) = (curves.sizes_bytes.len().max(1), &curves.miss_ratio);
    let step = |(i, here): (usize, &f32)| match i % sizes {
        0 => *here,
        _ => here - ratios[i - 1],
    };
    ratios.iter().enumerate().map(step).collect()
}

/// Whether `new` differs from `old` beyond chance: a point moved by more than a part of its error
/// bar, a bar became wider or narrower by as much, or a step left its bar.
pub(super) fn changed(old: &wire::Curves, new: &wire::Curves) -> bool {
    let bars = old.error_bar.iter().zip(&new.error_bar);
    let points = old.miss_ratio.iter().zip(&new.miss_ratio).zip(bars);
    let moved = |((a, b), (bar, new_bar)): ((&f32, &f32), (&f32, &f32))| {
        let least = SAME.max(SAME_BARS * bar);
        (a - b).abs() > least || (bar - new_bar).abs() > least
    };
    old.miss_ratio.len() != new.miss_ratio.len()
        || points.into_iter().any(moved)
        || stepped(old, new)
}

fn stepped(old: &wire::Curves, new: &wire::Curves) -> bool {
    let steps = steps(old).into_iter().zip(steps(new)).zip(&old.step_bar);
    steps.into_iter().any(|((old, new), bar)| (old - new).abs() > SAME.max(*bar))
}

/// Miss ratio and error bar of `policy` at `size_bytes`, interpolated linearly between the sizes of
/// the grid; `None` outside the grid or if there is no such policy. Near a cliff, the bar reaches
/// the values on both sides.
#[must_use]
pub fn predict(curves: &wire::Curves, policy: &str, size_bytes: u64) -> Option<(f64, f64)> {
    let row = curves.policies.iter().position(|name| name == policy)?;
    let sizes = &curves.sizes_bytes;
    let above = sizes.partition_point(|&size| size < size_bytes);
    let high = *sizes.get(above)?;
    let at = |column: &[f32], point| column.get(row * sizes.len() + point).copied().map(f64::from);
    let upper = (at(&curves.miss_ratio, above)?, at(&curves.error_bar, above)?);
    if high == size_bytes {
        return Some(upper);
    }
    let below = above.checked_sub(1)?;
    let lower = (at(&curves.miss_ratio, below)?, at(&curves.error_bar, below)?);
    let share = (size_bytes - sizes[below]) as f64 / (high - sizes[below]) as f64;
    let between = |lower: f64, upper: f64| lower + (upper - lower) * share;
    let fall = (lower.0 - upper.0).abs();
    let cliff = if fall > CLIFF { fall * share.max(1.0 - share) } else { 0.0 };
    Some((between(lower.0, upper.0), between(lower.1, upper.1).max(cliff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves() -> wire::Curves {
        wire::Curves {
            policies: vec!["default".into(), "lfu".into()],
            sizes_bytes: vec![100, 200, 400],
            miss_ratio: vec![0.9, 0.5, 0.1, 0.8, 0.4, 0.0],
            error_bar: vec![0.01; 6],
            step_bar: vec![0.002; 6],
            ..Default::default()
        }
    }

    #[test]
    fn between_two_sizes_the_prediction_is_linear() {
        let at = |policy, size| predict(&curves(), policy, size).map(|(m, _)| (m * 1e3).round());
        assert_eq!(at("default", 100), Some(900.0));
        assert_eq!(at("lfu", 300), Some(200.0));
        assert_eq!(at("lfu", 400), Some(0.0));
        assert_eq!((at("lfu", 99), at("lfu", 401), at("mru", 200)), (None, None, None));
    }

    #[test]
    fn between_the_sides_of_a_cliff_both_are_possible() {
        let (ratio, bar) = predict(&curves(), "default", 300).unwrap();
        assert!((ratio - 0.3).abs() < 1e-6 && (bar - 0.2).abs() < 1e-6, "{ratio} {bar}");
        let (_, at_a_size) = predict(&curves(), "default", 200).unwrap();
        assert!((at_a_size - 0.01).abs() < 1e-6);
        let mut gentle = curves();
        gentle.miss_ratio[2] = 0.3;
        assert!(predict(&gentle, "default", 300).unwrap().1 < 0.02);
    }

    #[test]
    fn a_small_part_of_an_error_bar_is_no_change() {
        let (old, mut new) = (curves(), curves());
        new.miss_ratio[3] += 0.0039;
        assert!(!changed(&old, &new));
        new.miss_ratio[3] += 0.004;
        assert!(changed(&old, &new));
    }

    #[test]
    fn a_difference_within_the_bars_is_halved_and_a_greater_one_stays() {
        let (old, mut new) = (curves(), curves());
        new.miss_ratio[3] += 0.008;
        new.miss_ratio[4] += 0.3;
        smooth(&old, &mut new);
        assert!((new.miss_ratio[3] - 0.804).abs() < 1e-6);
        assert!((new.miss_ratio[4] - 0.7).abs() < 1e-6);
    }

    #[test]
    fn a_step_holds_what_smoothing_takes_from_it() {
        let (old, mut new) = (curves(), curves());
        new.miss_ratio.iter_mut().take(3).for_each(|ratio| *ratio += 0.008);
        smooth(&old, &mut new);
        assert_eq!(new.step_bar[1..3], [0.002; 2]);
        let mut apart = curves();
        apart.miss_ratio[3] += 0.008;
        apart.miss_ratio[4] += 0.3;
        let (seen, before) = (steps(&apart)[4], apart.step_bar[4]);
        smooth(&old, &mut apart);
        let moved = (steps(&apart)[4] - seen).abs();
        assert!((moved - 0.004).abs() < 1e-6, "{moved}");
        assert!((apart.step_bar[4] - (before + moved - 0.001)).abs() < 1e-6);
    }

    #[test]
    fn a_step_beyond_its_bar_is_a_change_though_both_points_are_within_theirs() {
        let (mut old, mut new) = (curves(), curves());
        old.error_bar = vec![0.1; 6];
        new.error_bar = vec![0.1; 6];
        new.miss_ratio.iter_mut().for_each(|ratio| *ratio += 0.02);
        new.step_bar[0] = 0.1;
        old.step_bar = vec![0.1, 0.002, 0.002, 0.1, 0.002, 0.002];
        assert!(!changed(&old, &new));
        new.miss_ratio[2] += 0.01;
        assert!(changed(&old, &new));
    }
}
