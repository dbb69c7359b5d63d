// SPDX-License-Identifier: Apache-2.0
//! How much of a page cache a cgroup hardly needs, from its curve.

use crate::curves::predict;
use crate::wire;

/// Bytes that could be taken from a page cache at the cost of few more misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cold {
    /// The amount by the curve itself.
    pub bytes: u64,
    /// A lower bound at 95%, with the errors of the curve taken at their worst.
    pub min_bytes: u64,
}

/// The bytes that could be taken from a page cache of `present_bytes` under `policy` if its miss
/// ratio may rise by `most_added`; `None` if the present size is outside the curve.
///
/// The curve is walked from the present size down to the first size at which misses rise by more;
/// between two sizes of its grid it is a straight line. For the lower bound, only sizes of the grid
/// are considered, and the present miss ratio is assumed to be as low as that of the next larger
/// size. The rise is bounded in two ways, by the errors of the steps walked (see `Curves.step_bar`)
/// and by the errors of both ends, and the lesser bound counts: steps bound a part of a curve that
/// falls, and the ends bound a part that is at 0 or 1.
#[must_use]
pub fn cold(
    curves: &wire::Curves,
    policy: &str,
    present_bytes: u64,
    most_added: f64,
) -> Option<Cold> {
    let row = curves.policies.iter().position(|name| name == policy)?;
    let (present, _) = predict(curves, policy, present_bytes)?;
    let sizes = &curves.sizes_bytes;
    let at = |column: &[f32], point| column.get(row * sizes.len() + point).copied().map(f64::from);
    let above = sizes.partition_point(|&size| size < present_bytes);
    let best = at(&curves.miss_ratio, above)?.min(present);
    let lowest = (best - at(&curves.error_bar, above)?).max(0.0);
    let (mut squares, mut is_sure, mut min_bytes) = (0.0_f64, true, 0);
    // The last acceptable size, and the miss ratio there.
    let mut held = (present_bytes, present);
    for point in (0..above).rev() {
        let (size, ratio) = (sizes[point], at(&curves.miss_ratio, point)?);
        let bar = at(&curves.step_bar, point + 1).unwrap_or(1.0);
        let highest = (ratio + at(&curves.error_bar, point)?).min(1.0);
        squares += bar * bar;
        is_sure &= (ratio - best + squares.sqrt()).min(highest - lowest) <= most_added;
        if is_sure {
            min_bytes = present_bytes - size;
        }
        if ratio - present > most_added {
            let share = (present + most_added - held.1) / (ratio - held.1);
            let bytes = (held.0 - size) as f64 * share.clamp(0.0, 1.0);
            held.0 -= bytes as u64;
            break;
        }
        held = (size, ratio);
    }
    Some(Cold { bytes: present_bytes - held.0, min_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn curves(points: &[(u64, f32)], step_bar: f32) -> wire::Curves {
        wire::Curves {
            policies: vec!["lfu".into(), "default".into()],
            sizes_bytes: points.iter().map(|&(mib, _)| mib * MIB).collect(),
            miss_ratio: [vec![0.9; points.len()], points.iter().map(|p| p.1).collect()].concat(),
            error_bar: vec![0.1; 2 * points.len()],
            step_bar: vec![step_bar; 2 * points.len()],
            ..wire::Curves::default()
        }
    }

    /// Whole MiB that are cold, and their lower bound.
    fn found(curves: &wire::Curves, present_mib: u64, points: f64) -> Option<(u64, u64)> {
        let cold = cold(curves, "default", present_mib * MIB, points / 100.0)?;
        Some((cold.bytes / MIB, cold.min_bytes / MIB))
    }

    #[test]
    fn pages_beyond_the_working_set_are_cold() {
        // Uniform accesses to 8 MiB: misses fall evenly up to that size.
        let exact = curves(&[(2, 0.75), (4, 0.5), (8, 0.0), (16, 0.0), (32, 0.0)], 0.0);
        assert_eq!(found(&exact, 32, 0.0), Some((24, 24)));
        assert_eq!(found(&exact, 24, 0.0), Some((16, 16)));
        // A quarter of the accesses may miss more, which is half of the way from 8 to 4 MiB.
        assert_eq!(found(&exact, 32, 25.0), Some((26, 24)));
        assert_eq!(found(&exact, 32, 50.0), Some((28, 28)));
        assert_eq!(found(&exact, 8, 0.0), Some((0, 0)));
        assert_eq!(found(&exact, 6, 0.0), Some((0, 0)));
        assert_eq!(found(&exact, 6, 12.5), Some((1, 0)));
    }

    #[test]
    fn errors_of_the_steps_are_against_it() {
        let noisy = curves(&[(4, 0.5), (8, 0.01), (16, 0.005), (32, 0.0)], 0.01);
        // One step of 0.01 is allowed with a rise of 0.005; two steps (0.0141 and 0.01) are not.
        assert_eq!(found(&noisy, 32, 2.0).unwrap().1, 16);
        assert_eq!(found(&noisy, 32, 3.0).unwrap().1, 24);
        assert_eq!(found(&noisy, 32, 1.0), Some((24, 0)));
    }

    #[test]
    fn the_range_of_miss_ratios_bounds_the_error() {
        for ratio in [0.0, 1.0] {
            let mut flat = curves(&[(4, ratio), (8, ratio), (16, ratio), (32, ratio)], 0.009);
            flat.error_bar = vec![0.008; 8];
            assert_eq!(found(&flat, 32, 1.0), Some((28, 28)));
            assert_eq!(found(&flat, 32, 0.5).unwrap().1, 0);
        }
    }

    #[test]
    fn a_rise_and_a_fall_below_it_is_as_good_as_the_rise() {
        let bumpy = curves(&[(4, 0.0), (8, 0.3), (16, 0.0)], 0.0);
        assert_eq!(found(&bumpy, 16, 1.0).unwrap().1, 0);
        assert!(cold(&bumpy, "default", 16 * MIB, 0.01).unwrap().bytes < MIB);
    }

    #[test]
    fn on_a_cliff_nothing_is_sure() {
        let cliff = curves(&[(4, 1.0), (8, 1.0), (16, 0.0), (32, 0.0)], 0.0);
        // At some size between 8 and 16 MiB everything fits; below it, nothing may.
        assert_eq!(found(&cliff, 9, 5.0).unwrap().1, 0);
        assert_eq!(found(&cliff, 16, 5.0), Some((0, 0)));
        assert_eq!(found(&cliff, 32, 5.0).unwrap().1, 16);
    }

    #[test]
    fn sizes_outside_the_curve_have_no_prediction() {
        let flat = curves(&[(4, 0.0), (8, 0.0)], 0.0);
        assert_eq!(found(&flat, 8, 1.0), Some((4, 4)), "below 4 MiB nothing is known");
        assert_eq!((found(&flat, 3, 1.0), found(&flat, 9, 1.0)), (None, None));
        assert_eq!(cold(&flat, "mru", 8 * MIB, 0.01), None);
    }
}
