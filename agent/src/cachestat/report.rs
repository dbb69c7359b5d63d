// SPDX-License-Identifier: Apache-2.0
//! The report of one interval for each cgroup.

use super::cold::{Cold, cold};
use crate::curves::predict;
use crate::node::kernel::tenant::memory::CachedFiles;
use crate::wire::{Counters, Curves, DEFAULT_POLICY};
use std::ops::RangeInclusive;

/// Sizes at which misses are predicted, as multiples of the present one.
pub const MULTIPLES: [f64; 3] = [0.5, 1.0, 2.0];
/// Powers of the root of two, from an eighth of the present size to four times that.
pub const AROUND: RangeInclusive<i32> = -6..=4;

/// One report on all watched cgroups.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Microseconds since 1970.
    pub time_us: u64,
    /// Seconds since the last report.
    pub interval_s: f64,
    /// Seconds since watching began.
    pub watched_s: f64,
    /// Length of the window of working sets, seconds; they cover the time since the beginning if
    /// that is shorter.
    pub window_s: f64,
    /// Rise of the miss ratio up to which bytes are cold, percentage points.
    pub cold_points: f64,
    /// Sampled accesses of all cgroups that were lost since the last report.
    pub lost_events: u64,
    /// The cgroups, sorted by path.
    pub cgroups: Vec<CgroupReport>,
}

/// The report of one interval for a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct CgroupReport {
    /// Its path below the mount.
    pub cgroup: String,
    /// Its id.
    pub id: u64,
    /// The eviction policy that decides, `default` for the kernel's own.
    pub policy: String,
    /// Seconds since watching it began.
    pub watched_s: f64,
    /// The counts; `None` if it could not be counted.
    pub counted: Option<Counted>,
    /// Its cached files; `None` if they could not be read.
    pub cached: Option<CachedFiles>,
    /// Estimate of the bytes of distinct pages that it accessed in the window.
    pub working_set_bytes: Option<u64>,
    /// The predictions; `None` before there is a curve.
    pub predicted: Option<Predicted>,
    /// Whether the predictions can be trusted.
    pub trusted: bool,
    /// The reason why not, one line.
    pub distrust: String,
}

/// The counts of a cgroup in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Length of the interval, seconds.
    pub seconds: f64,
    /// Pages accessed.
    pub accesses: u64,
    /// Accessed pages that were not cached.
    pub misses: u64,
    /// Pages that were read before they were requested.
    pub readahead_pages: u64,
    /// Pages that were read again not long after their eviction (refaults).
    pub refaults: u64,
    /// Pages that were reclaimed.
    pub evictions: u64,
    /// Accesses that were faults of mapped files; part of `accesses`.
    pub mmap_accesses: u64,
    /// Read calls.
    pub read_calls: u64,
    /// Time spent in read calls, microseconds.
    pub read_time_us: u64,
}

impl Counted {
    /// The difference between two reports, `seconds` apart.
    #[must_use]
    pub fn between(before: &Counters, now: &Counters, seconds: f64) -> Self {
        let of = |total: fn(&Counters) -> u64| total(now).saturating_sub(total(before));
        Self {
            seconds,
            accesses: of(|c| c.accesses_total),
            misses: of(|c| c.misses_total),
            readahead_pages: of(|c| c.readahead_pages_total),
            refaults: of(|c| c.refaults_total),
            evictions: of(|c| c.evictions_total),
            mmap_accesses: of(|c| c.mmap_accesses_total),
            read_calls: of(|c| c.read_calls_total),
            read_time_us: of(|c| c.read_time_us_total),
        }
    }

    /// A count per second.
    #[must_use]
    pub fn per_s(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Share of the accesses whose page was cached, by readahead or otherwise; `None` without
    /// accesses.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        // A miss is counted when the page is added, and the access when its call returns.
        let misses = self.misses.min(self.accesses);
        (self.accesses > 0).then(|| 1.0 - misses as f64 / self.accesses as f64)
    }

    /// Pages added to the cache, by a miss or by readahead, per access. This is what curves
    /// predict. It is above 1 if readahead reads pages that nobody accesses; `None` without
    /// accesses.
    #[must_use]
    pub fn fill_ratio(&self) -> Option<f64> {
        let fills = self.misses + self.readahead_pages;
        (self.accesses > 0).then(|| fills as f64 / self.accesses as f64)
    }
}

/// A predicted miss ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Size of the page cache, bytes.
    pub size_bytes: u64,
    /// Pages added to the cache per access.
    pub miss_ratio: f64,
    /// Half-width of the error bar, within which the truth lies at 95% of points.
    pub error: f64,
}

/// The predictions of a curve for a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// At [`MULTIPLES`] of the present size; `None` outside the curve.
    pub at: [Option<Point>; 3],
    /// The cold bytes; `None` outside the curve.
    pub cold: Option<Cold>,
    /// Miss ratios at the present size times the powers of the root of two in [`AROUND`].
    pub around: Vec<Option<f64>>,
    /// The whole curve, by size.
    pub curve: Vec<Point>,
}

impl Predicted {
    /// The predictions of the curve of the kernel's own policy for a page cache of `present_bytes`;
    /// its miss ratio may rise by `cold_rise`.
    #[must_use]
    pub fn of(curves: &Curves, present_bytes: u64, cold_rise: f64) -> Self {
        let at = |times: f64| point(curves, (present_bytes as f64 * times).round() as u64);
        let around = AROUND.map(|power| at(2f64.powf(f64::from(power) / 2.0)));
        Self {
            at: MULTIPLES.map(at),
            cold: cold(curves, DEFAULT_POLICY, present_bytes, cold_rise),
            around: around.map(|point| point.map(|point| point.miss_ratio)).collect(),
            curve: curves.sizes_bytes.iter().filter_map(|&size| point(curves, size)).collect(),
        }
    }
}

fn point(curves: &Curves, size_bytes: u64) -> Option<Point> {
    let (miss_ratio, error) = predict(curves, DEFAULT_POLICY, size_bytes)?;
    Some(Point { size_bytes, miss_ratio, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_interval() {
        let before = Counters { accesses_total: 1000, misses_total: 900, ..Counters::default() };
        let now = Counters {
            accesses_total: 3000,
            misses_total: 1000,
            readahead_pages_total: 300,
            refaults_total: 40,
            ..Counters::default()
        };
        let counted = Counted::between(&before, &now, 4.0);
        assert_eq!((counted.accesses, counted.misses, counted.refaults), (2000, 100, 40));
        assert_eq!((counted.per_s(2000), counted.per_s(counted.refaults)), (500.0, 10.0));
        assert_eq!((counted.hit_ratio(), counted.fill_ratio()), (Some(0.95), Some(0.2)));
    }

    #[test]
    fn without_accesses_there_is_no_ratio() {
        let idle = Counted::between(&Counters::default(), &Counters::default(), 0.0);
        assert_eq!((idle.hit_ratio(), idle.fill_ratio(), idle.per_s(0)), (None, None, 0.0));
        let early = Counted { accesses: 2, misses: 3, ..idle };
        assert_eq!(early.hit_ratio(), Some(0.0), "a call that goes on has missed already");
    }

    #[test]
    fn sizes_are_relative_to_the_present_one() {
        let curves = Curves {
            policies: vec![DEFAULT_POLICY.into()],
            sizes_bytes: vec![100, 200, 400],
            miss_ratio: vec![0.75, 0.5, 0.25],
            error_bar: vec![0.01; 3],
            step_bar: vec![0.0; 3],
            ..Curves::default()
        };
        let found = Predicted::of(&curves, 200, 0.125);
        let ratios = found.at.map(|point| point.map(|point| (point.size_bytes, point.miss_ratio)));
        assert_eq!(ratios, [Some((100, 0.75)), Some((200, 0.5)), Some((400, 0.25))]);
        assert_eq!(found.cold, Some(Cold { bytes: 50, min_bytes: 0 }));
        assert_eq!(found.curve.len(), 3);
        let known: Vec<bool> = found.around.iter().map(Option::is_some).collect();
        assert_eq!(known[..4], [false; 4]);
        assert_eq!((known[4..9].to_vec(), known[9..].to_vec()), (vec![true; 5], vec![false; 2]));
        let beyond = Predicted::of(&curves, 300, 0.0);
        assert_eq!((beyond.at[0].is_some(), beyond.at[2]), (true, None));
    }
}
