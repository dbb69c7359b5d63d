// SPDX-License-Identifier: Apache-2.0
//! The position at which each page was last accessed: an open-addressing table from page hash to
//! position.

/// The home slot comes from the middle bits of the hash. The bits below choose the sub-sample (see
/// [`crate::shards`]), and the top bits are all zero in a hash-sampled set.
const HOME_SHIFT: u32 = 16;

const MIN_SLOTS: usize = 64;

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    /// Position + 1, so that zeroed memory is an empty table.
    position_plus_1: u64,
}

/// A map from [`crate::hash::page_hash`] to a position. The hash is a bijection of the page key, so
/// it can replace the key and the map is exact. The table uses linear probing and is at most 5/8
/// full. It takes 26 to 51 bytes per page once it has grown.
pub struct PageIndex {
    slots: Vec<Slot>,
    pages: usize,
}

impl Default for PageIndex {
    fn default() -> Self {
        Self { slots: vec![Slot::default(); MIN_SLOTS], pages: 0 }
    }
}

impl PageIndex {
    /// Returns the number of pages in the map.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pages
    }

    /// Returns whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Makes room, so that the next `additional` calls of [`Self::replace`] need not grow the
    /// table.
    pub fn reserve(&mut self, additional: usize) {
        let wanted = self.pages + additional;
        if wanted * 8 > self.slots.len() * 5 {
            self.grow((wanted * 8 / 5 + 1).next_power_of_two());
        }
    }

    /// Prefetches the home slot of `hash`.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch_read(&self.slots, self.home(hash));
    }

    /// Sets the position of `hash`. Returns 1 + its previous position, or 0 for a new page. The
    /// caller must have made room with [`Self::reserve`].
    #[inline(always)]
    pub fn replace(&mut self, hash: u64, position: u64) -> u64 {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.position_plus_1 == 0 {
                *slot = Slot { hash, position_plus_1: position + 1 };
                self.pages += 1;
                return 0;
            }
            if slot.hash == hash {
                return std::mem::replace(&mut slot.position_plus_1, position + 1);
            }
            at += 1;
        }
    }

    /// Returns whether `hash` is in the map.
    #[must_use]
    pub fn contains(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Removes `hash` from the map and returns its position.
    pub fn remove(&mut self, hash: u64) -> Option<u64> {
        let mask = self.slots.len() - 1;
        let mut hole = self.find(hash)?;
        let position = self.slots[hole].position_plus_1 - 1;
        let mut next = (hole + 1) & mask;
        while self.slots[next].position_plus_1 != 0 {
            // An entry may move back into the hole unless its home slot lies after the hole.
            let home = self.home(self.slots[next].hash) & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[hole] = Slot::default();
        self.pages -= 1;
        Some(position)
    }

    /// Replaces every position `p` by `new_position(p)`.
    #[inline(always)]
    pub fn renumber(&mut self, mut new_position: impl FnMut(u64) -> u64) {
        for slot in &mut self.slots {
            if slot.position_plus_1 != 0 {
                slot.position_plus_1 = new_position(slot.position_plus_1 - 1) + 1;
            }
        }
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> HOME_SHIFT) as usize & (self.slots.len() - 1)
    }

    fn find(&self, hash: u64) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let slot = &self.slots[at];
            if slot.position_plus_1 == 0 {
                return None;
            }
            if slot.hash == hash {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        let mask = slots - 1;
        for slot in old {
            if slot.position_plus_1 != 0 {
                let mut at = self.home(slot.hash);
                while self.slots[at].position_plus_1 != 0 {
                    at = (at + 1) & mask;
                }
                self.slots[at] = slot;
            }
        }
    }
}

/// Prefetches `slice[at]`. Does nothing on processors without such an instruction.
#[inline(always)]
pub(crate) fn prefetch_read<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address, mapped or not, has no architectural effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_hash_map(ops in prop::collection::vec((0u8..4, 0u64..40), 0..600)) {
            let mut index = PageIndex::default();
            let mut model: HashMap<u64, u64> = HashMap::new();
            for (i, (op, key)) in ops.into_iter().enumerate() {
                // Few distinct home slots make probe runs long, so that they wrap around.
                let hash = (key << HOME_SHIFT << 58) | ((60 + key % 3) << HOME_SHIFT) | key;
                if op == 0 {
                    prop_assert_eq!(index.remove(hash), model.remove(&hash));
                } else {
                    index.reserve(1);
                    let previous = index.replace(hash, i as u64).checked_sub(1);
                    prop_assert_eq!(previous, model.insert(hash, i as u64));
                }
                prop_assert_eq!(index.contains(hash), model.contains_key(&hash));
                prop_assert_eq!(index.len(), model.len());
            }
            index.renumber(|p| p + 7);
            for (hash, position) in model {
                prop_assert_eq!(index.remove(hash), Some(position + 7));
            }
            prop_assert!(index.is_empty());
        }
    }
}
