// SPDX-License-Identifier: Apache-2.0
//! How much curves move over time. All pages pass through a regime together, so the spread between
//! groups of pages does not show this.

use std::collections::VecDeque;

/// Number of movements that are remembered. The median is used, so half of them must be large: one
/// change of the workload does not widen the error bars, repeated changes do.
const REMEMBERED: usize = 7;
/// The least number of movements from which a bar is computed.
const FEWEST: usize = 3;
/// Median of the absolute values of a normal distribution, in standard deviations.
const MEDIAN_DEVIATION: f32 = 0.6745;
/// Student's t at 95% with 6 degrees of freedom, one less than the number of movements.
const T_95: f32 = 2.447;

/// The last curves, noted once per half-life, and how far each point moved in between.
///
/// A curve is a mean whose weights halve with each half-life, so after one half-life, half of its
/// weight is new. If half-lives are independent with variance v, the mean has the variance v/3, as
/// the squared weights 1/4, 1/16, ... sum to 1/3. The difference between one mean and the next has
/// the same variance: (1/4)(1 + 1/3) v = v/3. A movement therefore shows the standard deviation of
/// the mean.
#[derive(Debug, Clone, Default)]
pub(super) struct Drift {
    last: Vec<f32>,
    movements: VecDeque<Vec<f32>>,
}

impl Drift {
    /// Notes the miss ratios of all points, one half-life after the previous call.
    pub(super) fn note(&mut self, miss_ratio: &[f32]) {
        let last = std::mem::replace(&mut self.last, miss_ratio.to_vec());
        if last.len() != miss_ratio.len() {
            self.movements.clear();
            return;
        }
        if self.movements.len() == REMEMBERED {
            self.movements.pop_front();
        }
        let moved = last.iter().zip(miss_ratio).map(|(before, now)| (now - before).abs());
        self.movements.push_back(moved.collect());
    }

    /// Half-width of the error bar of a point: the median of its movements as a standard deviation,
    /// times t, within which the long-term mean lies at 95% of points. 0 while there are fewer than
    /// [`FEWEST`] movements.
    pub(super) fn bar(&self, point: usize) -> f32 {
        if self.movements.len() < FEWEST {
            return 0.0;
        }
        let mut moved: Vec<f32> = self.movements.iter().map(|all| all[point]).collect();
        let middle = (moved.len() - 1) / 2;
        let (_, median, _) = moved.select_nth_unstable_by(middle, f32::total_cmp);
        T_95 * *median / MEDIAN_DEVIATION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(values: &[f32]) -> f32 {
        let mut drift = Drift::default();
        values.iter().for_each(|&value| drift.note(&[value]));
        drift.bar(0)
    }

    #[test]
    fn one_change_of_phase_is_no_unsteadiness() {
        assert_eq!(after(&[0.2, 0.9]), 0.0);
        assert_eq!(after(&[0.2, 0.2, 0.2, 0.9, 0.9, 0.9]), 0.0);
    }

    #[test]
    fn curves_that_move_to_and_fro_have_a_bar_as_wide() {
        assert!(after(&[0.2, 0.6, 0.2, 0.6, 0.2]) > 0.4);
        let settled = [0.2, 0.6, 0.2, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5];
        assert_eq!(after(&settled), 0.0);
    }
}
