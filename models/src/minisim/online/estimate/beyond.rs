// SPDX-License-Identifier: Apache-2.0
//! Miss ratios of caches that are larger than the number of pages seen so far.

use super::bars::Z_95;

/// The slope of a curve is measured from a size that is at least this many times smaller than the
/// number of pages seen.
const APART: f64 = 4.0;

/// Number of distinct pages seen, and the share of the latest accesses that were to a new page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) pages: f64,
    pub(super) first_share: f64,
}

/// Replaces the miss ratios at sizes larger than the number of pages seen, where a lower ratio is
/// to be expected: every miss counted there was the first access to a page, and that page may be
/// hit later. Returns the indices of the sizes that were replaced.
///
/// In a steady state, a cache of C pages misses as often as accesses are to new pages at the time
/// when C pages have been seen (Xiang, Ding, Luo, Bao: HOTL, ASPLOS '13). A larger cache therefore
/// misses no more often than accesses are to new pages now. Curves of skewed workloads fall about
/// linearly with the logarithm of the size, and this function extends that line. The curve need not
/// follow it, so the error covers everything from 0 to the present share of new pages.
pub(super) fn extrapolate(
    sizes_pages: &[u64],
    seen: Seen,
    miss_ratio: &mut [f64],
    stderr: &mut [f64],
) -> Vec<usize> {
    let size = |i: usize| sizes_pages[i] as f64;
    let known = sizes_pages.partition_point(|&size| size as f64 <= seen.pages);
    let near = sizes_pages.partition_point(|&size| size as f64 * APART <= seen.pages);
    let Some(from) = near.checked_sub(1) else { return Vec::new() };
    let most = seen.first_share.min(miss_ratio[known - 1]);
    let slope = ((most - miss_ratio[from]) / (seen.pages / size(from)).ln()).min(0.0);
    let mut replaced = Vec::new();
    for i in known..sizes_pages.len() {
        let ratio = (most + slope * (size(i) / seen.pages).ln()).max(0.0);
        if ratio < miss_ratio[i] {
            (miss_ratio[i], stderr[i]) = (ratio, ratio.max(most - ratio) / Z_95);
            replaced.push(i);
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

    fn extrapolated(counted: [f64; 7], pages: f64, first: f64) -> ([f64; 7], [f64; 7]) {
        let (mut ratios, mut stderr) = (counted, [0.01; 7]);
        let seen = Seen { pages, first_share: first };
        extrapolate(&SIZES, seen, &mut ratios, &mut stderr);
        (ratios, stderr.map(|error| error * Z_95))
    }

    #[test]
    fn a_fall_goes_on_and_the_bar_reaches_both_ends() {
        let (ratios, bars) = extrapolated([0.9, 0.8, 0.7, 0.65, 0.65, 0.65, 0.65], 8.0, 0.6);
        for (found, wanted) in ratios.iter().zip([0.9, 0.8, 0.7, 0.65, 0.5, 0.4, 0.3]) {
            assert!((found - wanted).abs() < 1e-12, "{ratios:?}");
        }
        assert!(bars[3] < 0.02, "what is known keeps its bar");
        for i in 4..7 {
            assert!(ratios[i] - bars[i] <= 1e-12 && ratios[i] + bars[i] >= 0.6 - 1e-12, "{bars:?}");
        }
    }

    #[test]
    fn curves_that_do_not_fall_or_are_hardly_known_stay_as_counted() {
        for (counted, pages) in [([1.0; 7], 16.0), ([0.9, 0.5, 0.4, 0.4, 0.4, 0.4, 0.4], 3.0)] {
            assert_eq!(extrapolated(counted, pages, 1.0), (counted, [0.01 * Z_95; 7]));
        }
        let (ratios, _) = extrapolated([0.5, 0.2, 0.05, 0.05, 0.05, 0.05, 0.05], 4.0, 0.05);
        assert_eq!(ratios[6], 0.0, "no less than none");
    }
}
