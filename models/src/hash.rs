// SPDX-License-Identifier: Apache-2.0
//! The hashes that decide which pages are sampled.

/// The two multiplying rounds of the finalizer of SplitMix64.
#[inline(always)]
fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Returns the hash of a page key, uniform over all 64 bits: the finalizer of SplitMix64 (Steele,
/// Lea, Flood, OOPSLA '14; constants of Stafford's variant 13).
///
/// A page is sampled at rate R when its hash is below `R * 2^64` (SHARDS, FAST '15, section 3.1).
/// The high bits thus decide whether a page is sampled, and independent sub-samples use the low
/// bits.
#[inline(always)]
#[must_use]
pub fn page_hash(key: u64) -> u64 {
    let x = mixed(key.wrapping_add(0x9e37_79b9_7f4a_7c15));
    x ^ (x >> 31)
}

/// Returns the key whose [`page_hash`] is `hash`.
#[inline(always)]
#[must_use]
pub fn page_unhash(hash: u64) -> u64 {
    let mut x = hash ^ (hash >> 31) ^ (hash >> 62);
    x = x.wrapping_mul(0x3196_42b2_d24d_8ec3);
    x = (x ^ (x >> 27) ^ (x >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    x ^= (x >> 30) ^ (x >> 60);
    x.wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// Returns the hash that the samplers in the kernel compare with their threshold: the two rounds of
/// [`page_hash`] over the page index, the inode and its generation. Since every access pays for it,
/// it is cheap and distinguishes most files, not all. Its upper half is uniform. Several pages may
/// share a value and are then sampled together, so the value does not identify a page.
#[inline(always)]
#[must_use]
pub fn sample_hash(inode: u64, generation: u32, index: u64) -> u64 {
    mixed(index.wrapping_add((inode ^ u64::from(generation)) << 32))
}

/// Returns the threshold T such that a uniform 64-bit hash is below T with probability `rate`, in
/// (0, 1]. A rate of 1 gives `u64::MAX`, which excludes one hash value in 2^64.
#[must_use]
pub fn threshold(rate: f64) -> u64 {
    (rate * 2f64.powi(64)) as u64
}

/// Returns the rate at which pages are sampled whose hash is below a threshold.
#[must_use]
pub fn rate_of(threshold: u64) -> f64 {
    threshold as f64 / 2f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unhashing_is_the_inverse(key in any::<u64>()) {
            prop_assert_eq!(page_unhash(page_hash(key)), key);
            prop_assert_eq!(page_hash(page_unhash(key)), key);
        }

        /// Tests a file that is read in steps, and many files whose first pages are read.
        #[test]
        fn a_sample_is_as_large_as_chance_makes_it(
            inode in 0u64..1 << 32,
            generation in any::<u32>(),
            step in 1u64..5000,
            bits in 3u32..8,
        ) {
            const PAGES: u64 = 16_384;
            let below = |hash: &u64| *hash <= u64::MAX >> bits;
            let one_file = (0..PAGES).map(|i| sample_hash(inode, generation, i * step));
            let files = (0..PAGES).map(|i| sample_hash(inode + i / 4, generation, i % 4));
            let share = 0.5f64.powi(bits as i32);
            let sigma = (PAGES as f64 * share * (1.0 - share)).sqrt();
            for found in [one_file.filter(below).count(), files.filter(below).count()] {
                let off = (found as f64 - PAGES as f64 * share).abs();
                prop_assert!(off < 6.0 * sigma, "{found}: {off} is more than 6 * {sigma}");
            }
        }
    }
}
