// SPDX-License-Identifier: Apache-2.0
//! The hash that decides which pages are sampled.

/// Hash of a page key, uniform over all 64 bits: the finalizer of SplitMix64
/// (Steele, Lea, Flood, OOPSLA '14; constants of Stafford's variant 13).
///
/// A page is sampled at rate R when its hash is below `R * 2^64` (SHARDS, FAST '15, section 3.1),
/// so the high bits decide membership; independent sub-samples use the low bits.
#[inline(always)]
#[must_use]
pub fn page_hash(key: u64) -> u64 {
    let mut x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Threshold T such that a uniform 64-bit hash is below T with probability `rate` (0, 1].
/// A rate of 1 gives `u64::MAX`, which misses one hash value in 2^64.
#[must_use]
pub fn threshold(rate: f64) -> u64 {
    (rate * 2f64.powi(64)) as u64
}
