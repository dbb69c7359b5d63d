// SPDX-License-Identifier: Apache-2.0
//! The inner loop of sampling: hash every key, keep the hashes below a threshold.

use crate::hash::page_hash;

/// Largest number of keys per call of [`select`]. The selected hashes stay in the L1 cache.
pub const BLOCK_KEYS: usize = 1024;

/// Writes the hashes of `keys` (each first xored with `seed`) that are below `threshold` to the
/// front of `selected`, in order, and returns how many there are. Takes at most [`BLOCK_KEYS`]
/// keys.
#[inline]
pub fn select(keys: &[u64], seed: u64, threshold: u64, selected: &mut [u64; BLOCK_KEYS]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if let Some(count) = avx512::try_select(keys, seed, threshold, selected) {
        return count;
    }
    select_portable(keys, seed, threshold, selected)
}

/// Hashes every key, compares it with `threshold` and counts. This is the least work that any
/// hash-sampled analysis does. The benchmark uses it as its baseline, compiled with the same
/// instructions as [`select`].
#[must_use]
pub fn bare_loop(keys: &[u64], threshold: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(count) = avx512::try_count(keys, threshold) {
        return count;
    }
    count_portable(keys, threshold)
}

/// Stores every hash, and advances the position only past those that are selected, so there is no
/// branch on the data.
fn select_portable(
    keys: &[u64],
    seed: u64,
    threshold: u64,
    selected: &mut [u64; BLOCK_KEYS],
) -> usize {
    let mut count = 0;
    for &key in &keys[..keys.len().min(BLOCK_KEYS)] {
        let hash = page_hash(key ^ seed);
        // `count` is below the number of keys processed, so the modulo only removes the bounds
        // check.
        selected[count % BLOCK_KEYS] = hash;
        count += usize::from(hash < threshold);
    }
    count
}

fn count_portable(keys: &[u64], threshold: u64) -> u64 {
    keys.iter().map(|&key| u64::from(page_hash(key) < threshold)).sum()
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi64, _mm512_cmplt_epu64_mask, _mm512_loadu_si512,
        _mm512_mask_compressstoreu_epi64, _mm512_mullo_epi64, _mm512_set1_epi64, _mm512_srli_epi64,
        _mm512_xor_si512,
    };

    use super::BLOCK_KEYS;
    use crate::cpu_features::with_cpu_features;
    use crate::hash::page_hash;

    const LANES: usize = 8;
    /// Number of vectors that are hashed before checking whether any lane was selected.
    const VECTORS: usize = 4;

    /// Returns [`page_hash`] of eight keys.
    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    fn hash8(keys: __m512i) -> __m512i {
        let splat = |x: u64| _mm512_set1_epi64(x.cast_signed());
        let mut x = _mm512_add_epi64(keys, splat(0x9e37_79b9_7f4a_7c15));
        x = _mm512_xor_si512(x, _mm512_srli_epi64::<30>(x));
        x = _mm512_mullo_epi64(x, splat(0xbf58_476d_1ce4_e5b9));
        x = _mm512_xor_si512(x, _mm512_srli_epi64::<27>(x));
        x = _mm512_mullo_epi64(x, splat(0x94d0_49bb_1331_11eb));
        _mm512_xor_si512(x, _mm512_srli_epi64::<31>(x))
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    fn load8(keys: &[u64; LANES]) -> __m512i {
        // SAFETY: the array is 64 readable bytes and the load needs no alignment.
        unsafe { _mm512_loadu_si512(keys.as_ptr().cast()) }
    }

    /// Runs [`super::select`] if the processor has AVX-512; otherwise returns `None`.
    #[inline]
    pub fn try_select(
        keys: &[u64],
        seed: u64,
        threshold: u64,
        selected: &mut [u64; BLOCK_KEYS],
    ) -> Option<usize> {
        with_cpu_features!(
            ["avx512f", "avx512dq"],
            fn(
                keys: &[u64] = keys,
                seed: u64 = seed,
                threshold: u64 = threshold,
                selected: &mut [u64; BLOCK_KEYS] = selected
            ) -> usize {
                select(keys, seed, threshold, selected)
            }
        )
    }

    /// Runs [`super::bare_loop`] if the processor has AVX-512 and POPCNT; otherwise returns `None`.
    pub fn try_count(keys: &[u64], threshold: u64) -> Option<u64> {
        with_cpu_features!(
            ["avx512f", "avx512dq", "popcnt"],
            fn(keys: &[u64] = keys, threshold: u64 = threshold) -> u64 { count(keys, threshold) }
        )
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    #[inline]
    fn select(keys: &[u64], seed: u64, threshold: u64, selected: &mut [u64; BLOCK_KEYS]) -> usize {
        let keys = &keys[..keys.len().min(BLOCK_KEYS)];
        let seeds = _mm512_set1_epi64(seed.cast_signed());
        let thresholds = _mm512_set1_epi64(threshold.cast_signed());
        let mut count = 0;
        let (groups, rest) = keys.as_chunks::<{ LANES * VECTORS }>();
        for group in groups {
            let (vectors, _) = group.as_chunks::<LANES>();
            let mut hashes = [seeds; VECTORS];
            let mut masks = [0; VECTORS];
            for i in 0..VECTORS {
                hashes[i] = hash8(_mm512_xor_si512(load8(&vectors[i]), seeds));
                masks[i] = _mm512_cmplt_epu64_mask(hashes[i], thresholds);
            }
            if masks == [0; VECTORS] {
                continue;
            }
            for (hashes, mask) in hashes.into_iter().zip(masks) {
                // SAFETY: at most one hash is stored per key processed and `selected` has room for
                // all BLOCK_KEYS of them; only the lanes of the mask are written.
                unsafe {
                    let end = selected.as_mut_ptr().add(count);
                    _mm512_mask_compressstoreu_epi64(end.cast(), mask, hashes);
                }
                count += mask.count_ones() as usize;
            }
        }
        for &key in rest {
            let hash = page_hash(key ^ seed);
            if hash < threshold {
                selected[count] = hash;
                count += 1;
            }
        }
        count
    }

    #[target_feature(enable = "avx512f,avx512dq,popcnt")]
    #[inline]
    fn count(keys: &[u64], threshold: u64) -> u64 {
        let thresholds = _mm512_set1_epi64(threshold.cast_signed());
        let (groups, rest) = keys.as_chunks::<{ LANES * VECTORS }>();
        let mut count = super::count_portable(rest, threshold);
        for group in groups {
            for vector in group.as_chunks::<LANES>().0 {
                let hashes = hash8(load8(vector));
                let mask = _mm512_cmplt_epu64_mask(hashes, thresholds);
                count += u64::from(mask.count_ones());
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selects_what_the_definition_selects(
            keys in prop::collection::vec(any::<u64>(), 0..=BLOCK_KEYS),
            seed in any::<u64>(),
            threshold in prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), 0..u64::MAX / 500],
        ) {
            let hashes = keys.iter().map(|&key| page_hash(key ^ seed));
            let expected: Vec<u64> = hashes.filter(|&hash| hash < threshold).collect();
            let mut selected = [0; BLOCK_KEYS];
            let count = select(&keys, seed, threshold, &mut selected);
            prop_assert_eq!(&selected[..count], &expected);
            let count = select_portable(&keys, seed, threshold, &mut selected);
            prop_assert_eq!(&selected[..count], &expected);
            let below = keys.iter().filter(|&&key| page_hash(key) < threshold).count() as u64;
            prop_assert_eq!(bare_loop(&keys, threshold), below);
            prop_assert_eq!(count_portable(&keys, threshold), below);
        }
    }
}
