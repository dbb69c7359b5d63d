// SPDX-License-Identifier: Apache-2.0
//! How much curves move with time. All pages go through a phase together, so the spread between
//! groups of pages does not show it.

use std::collections::VecDeque;

/// Movements that are remembered. Half of them must be large: a workload that changed once is
/// believed at once, one that goes to and fro is not.
const REMEMBERED: usize = 7;
/// Fewer say nothing.
const FEWEST: usize = 3;
/// Median of the absolute values of a normal distribution, standard deviations.
const MEDIAN_DEVIATION: f32 = 0.6745;
/// Student's t at 95% with 6 degrees of freedom, one less than there are movements.
const T_95: f32 = 2.447;

/// The last curves, one per half-life, and by how much each point moved in between.
///
/// Of what fades by half per half-life, half is new after one. When half-lives are independent, the
/// difference to the mean so far has the variance of that mean: sum of the squared weights 1/2, 1/4,
/// ... is 1/3, and so is a quarter of 1 + 1/3.
#[derive(Debug, Clone, Default)]
pub(super) struct Drift {
    last: Vec<f32>,
    movements: VecDeque<Vec<f32>>,
}

impl Drift {
    /// Notes the miss ratios of all points, a half-life after those before.
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

    /// Half-width that holds the mean over a long time at 95% of points: the median of the
    /// movements as a standard deviation, times t. 0 while there are few.
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
    fn what_goes_to_and_fro_has_a_bar_as_wide() {
        assert!(after(&[0.2, 0.6, 0.2, 0.6, 0.2]) > 0.4);
        let settled = [0.2, 0.6, 0.2, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5];
        assert_eq!(after(&settled), 0.0);
    }
}
