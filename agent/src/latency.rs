// SPDX-License-Identifier: Apache-2.0
//! Histograms of the duration of read calls, with four buckets per doubling.

/// Number of buckets of a histogram, see `Counters.read_latency_total` in the protocol.
pub const LATENCY_BUCKETS: usize = 104;

/// The bucket of a read call that took `ns` nanoseconds.
#[must_use]
pub fn latency_bucket(ns: u64) -> usize {
    let us = ns / 1000;
    if us == 0 {
        return 0;
    }
    let exponent = us.ilog2() as usize;
    // The two bits after the leading one. They come from nanoseconds, so that calls of a few
    // microseconds are still divided into quarters.
    let quarter = ((ns / 250) >> exponent) as usize & 3;
    (4 * exponent + quarter).min(LATENCY_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_with_the_duration_to_the_last() {
        let buckets: Vec<usize> =
            [0, 999, 1_000, 1_250, 2_000, 2_500, u64::MAX].map(latency_bucket).into();
        assert_eq!(buckets, [0, 0, 0, 1, 4, 5, LATENCY_BUCKETS - 1]);
    }
}
