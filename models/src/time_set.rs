// SPDX-License-Identifier: Apache-2.0
//! A set of points in time, with a fast maximum.

const WORD_BITS: usize = 64;

/// A set of integers in `0..universe`: a bitmap below a tree of bitmaps with fan-out 64. A bit of
/// the tree is set if the word below it is not zero. Four levels are enough for 16 million
/// integers. The memory is universe / 63 words.
pub(crate) struct TimeSet {
    /// The level of the members comes first, the root (one word) last.
    levels: Vec<Vec<u64>>,
}

impl TimeSet {
    /// Creates an empty set over `0..universe`.
    pub(crate) fn new(universe: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = universe.max(1);
        loop {
            bits = bits.div_ceil(WORD_BITS);
            levels.push(vec![0; bits]);
            if bits == 1 {
                return Self { levels };
            }
        }
    }

    /// Adds `member`.
    #[inline]
    pub(crate) fn insert(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            let word = &mut level[at / WORD_BITS];
            let was_empty = *word == 0;
            *word |= 1 << (at % WORD_BITS);
            if !was_empty {
                return;
            }
            at /= WORD_BITS;
        }
    }

    /// Removes `member`, and returns whether it was in the set.
    #[inline]
    pub(crate) fn remove(&mut self, member: usize) -> bool {
        let bit = 1 << (member % WORD_BITS);
        if self.levels[0][member / WORD_BITS] & bit == 0 {
            return false;
        }
        let mut at = member;
        for level in &mut self.levels {
            let word = &mut level[at / WORD_BITS];
            *word &= !(1 << (at % WORD_BITS));
            if *word != 0 {
                break;
            }
            at /= WORD_BITS;
        }
        true
    }

    /// Removes the largest member and returns it; `None` if the set is empty.
    #[inline]
    pub(crate) fn remove_max(&mut self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let highest = level[at].checked_ilog2()?;
            at = at * WORD_BITS + highest as usize;
        }
        self.remove(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_an_ordered_set(
            universe in 1usize..400_000,
            ops in prop::collection::vec((0u8..4, any::<prop::sample::Index>()), 0..300),
        ) {
            let mut set = TimeSet::new(universe);
            let mut model = BTreeSet::new();
            for (op, member) in ops {
                let member = member.index(universe);
                match op {
                    0 => prop_assert_eq!(set.remove(member), model.remove(&member)),
                    1 => prop_assert_eq!(set.remove_max(), model.pop_last()),
                    _ => {
                        set.insert(member);
                        model.insert(member);
                    }
                }
            }
            while let Some(largest) = model.pop_last() {
                prop_assert_eq!(set.remove_max(), Some(largest));
            }
            prop_assert_eq!(set.remove_max(), None);
        }
    }
}
