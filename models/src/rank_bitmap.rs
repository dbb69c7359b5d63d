// SPDX-License-Identifier: Apache-2.0
//! An append-only sequence of positions, some of them live, that counts the live ones after any
//! position in a fixed number of steps.
//!
//! Live positions are bits in blocks of 512. Above the blocks is a tree of fan-out 16. Each entry
//! of a node is the number of live bits in the *later siblings* of its subtree. A query reads one
//! entry per level, and an update is one 64-byte vector operation per level, without a
//! data-dependent branch (a Fenwick tree does the same work in a loop of unpredictable length). The
//! block that positions are being appended to is not counted in the tree until it is full.

use crate::page_index::prefetch_read;

const BLOCK_BITS: u64 = 512;
const FANOUT: usize = 16;
const FANOUT_BITS: u32 = 4;
const MAX_LEVELS: usize = 8;
/// Number of requests by which the block of an old position is prefetched ahead.
const PREFETCH_AHEAD: usize = 12;

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Block([u64; 8]);

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Node([u32; FANOUT]);

/// `BEFORE[slot]` is all ones in the entries before `slot`. The masks are loaded from a table
/// because compilers compute them one lane at a time.
static BEFORE: [Node; FANOUT] = {
    let mut masks = [Node([0; FANOUT]); FANOUT];
    let mut at = 0;
    while at < FANOUT * FANOUT {
        if at % FANOUT < at / FANOUT {
            masks[at / FANOUT].0[at % FANOUT] = !0;
        }
        at += 1;
    }
    masks
};

/// `AFTER[word]` is all ones in the words after `word`.
static AFTER: [Block; 8] = {
    let mut masks = [Block([0; 8]); 8];
    let mut at = 0;
    while at < 64 {
        if at % 8 > at / 8 {
            masks[at / 8].0[at % 8] = !0;
        }
        at += 1;
    }
    masks
};

impl Node {
    /// Adds `delta` (wrapping) to every entry before `slot`.
    #[inline(always)]
    fn add_before(&mut self, slot: usize, delta: u32) {
        for (entry, mask) in self.0.iter_mut().zip(&BEFORE[slot].0) {
            *entry = entry.wrapping_add(mask & delta);
        }
    }
}

impl Block {
    /// Returns the number of live bits at or after `bit`.
    #[inline(always)]
    fn count_from(&self, bit: u64) -> u32 {
        let word = (bit >> 6) as usize % 8;
        let mut count = (self.0[word] & (!0u64 << (bit & 63))).count_ones();
        for (bits, mask) in self.0.iter().zip(&AFTER[word].0) {
            count += (bits & mask).count_ones();
        }
        count
    }

    /// Returns the number of live bits.
    #[inline(always)]
    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// The set of live positions, at most 2^32 - 1 of them.
pub struct RankBitmap {
    blocks: Vec<Block>,
    nodes: Vec<Node>,
    level_start: [usize; MAX_LEVELS],
    levels: usize,
    next: u64,
    /// Live bits of the open block, which is the one that contains `next`.
    open_live: u32,
}

impl RankBitmap {
    /// Creates a bitmap with the live positions `0..live` and room up to position `capacity`. The
    /// capacity is rounded up to whole blocks and is at least `live`.
    #[must_use]
    pub fn with_live(live: u64, capacity: u64) -> Self {
        let block_count = (capacity.max(live) / BLOCK_BITS + 1) as usize;
        let mut blocks = vec![Block::default(); block_count];
        for position in 0..live / 64 {
            blocks[(position / 8) as usize].0[(position % 8) as usize] = !0;
        }
        if !live.is_multiple_of(64) {
            blocks[(live / BLOCK_BITS) as usize].0[(live / 64 % 8) as usize] =
                (1 << (live % 64)) - 1;
        }
        let mut level_start = [0; MAX_LEVELS];
        let (mut levels, mut width, mut total) = (0, block_count, 0);
        while width > 1 || levels == 0 {
            width = width.div_ceil(FANOUT);
            level_start[levels] = total;
            total += width;
            levels += 1;
        }
        let nodes = vec![Node::default(); total];
        let mut bitmap = Self { blocks, nodes, level_start, levels, next: live, open_live: 0 };
        for block in 0..(live / BLOCK_BITS) as usize {
            bitmap.count_block(block, BLOCK_BITS as u32);
        }
        bitmap.open_live = (live % BLOCK_BITS) as u32;
        bitmap
    }

    /// Returns the number of positions that can still be appended. The last block is never filled,
    /// because the open block must stay inside the bitmap.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BITS - 1 - self.next
    }

    /// Returns the next position to be appended.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns, for each block, the number of live bits in the blocks before it. Renumbering needs
    /// them.
    #[must_use]
    pub fn block_ranks(&self) -> Vec<u64> {
        let mut rank = 0;
        let before = |block: &Block| {
            let here = rank;
            rank += u64::from(block.count());
            here
        };
        self.blocks.iter().map(before).collect()
    }

    /// Returns the number of live positions before `position`, given the [`Self::block_ranks`].
    #[inline(always)]
    #[must_use]
    pub fn rank(&self, block_ranks: &[u64], position: u64) -> u64 {
        let block = (position / BLOCK_BITS) as usize;
        let counts = &self.blocks[block];
        let from = counts.count_from(position % BLOCK_BITS);
        block_ranks[block] + u64::from(counts.count() - from)
    }

    /// Marks `position` as not live. It must be live.
    pub fn remove(&mut self, position: u64) {
        self.clear(position);
    }

    /// Processes each entry of `old` in turn. If the entry is `p + 1`, writes the number of live
    /// positions at or after `p` to `distances` and marks `p` as not live. If it is 0, writes 0.
    /// Then appends a live position. [`Self::room`] must be at least `old.len()`.
    #[inline(always)]
    pub fn replace_all(&mut self, old: &[u64], distances: &mut [u32]) {
        for i in 0..old.len().min(distances.len()) {
            if let Some(&ahead) = old.get(i + PREFETCH_AHEAD) {
                prefetch_read(&self.blocks, (ahead.wrapping_sub(1) / BLOCK_BITS) as usize);
            }
            distances[i] = if old[i] == 0 { 0 } else { self.clear(old[i] - 1) };
            self.append();
        }
    }

    /// Marks `position` as not live. Returns how many positions at or after it were live before.
    #[inline(always)]
    fn clear(&mut self, position: u64) -> u32 {
        let block = (position / BLOCK_BITS) as usize;
        let bit = position % BLOCK_BITS;
        // The open block is not in the tree: its entries there are 0 and must stay 0.
        let in_tree = u32::from(block < (self.next / BLOCK_BITS) as usize);
        let bits = &mut self.blocks[block];
        let mut later = bits.count_from(bit) + in_tree * self.open_live;
        bits.0[(bit / 64) as usize] &= !(1 << (bit % 64));
        self.open_live -= 1 - in_tree;
        let mut at = block;
        for &start in &self.level_start[..self.levels] {
            let slot = at % FANOUT;
            at >>= FANOUT_BITS;
            let node = &mut self.nodes[start + at];
            later += node.0[slot];
            node.add_before(slot, in_tree.wrapping_neg());
        }
        later
    }

    #[inline(always)]
    fn append(&mut self) {
        let bit = self.next % BLOCK_BITS;
        let block = (self.next / BLOCK_BITS) as usize;
        self.blocks[block].0[(bit / 64) as usize] |= 1 << (bit % 64);
        self.open_live += 1;
        self.next += 1;
        if bit == BLOCK_BITS - 1 {
            self.count_block(block, self.open_live);
            self.open_live = 0;
        }
    }

    /// Adds the `live` bits of a block that has just been filled to the tree.
    fn count_block(&mut self, block: usize, live: u32) {
        let mut at = block;
        for &start in &self.level_start[..self.levels] {
            let slot = at % FANOUT;
            at >>= FANOUT_BITS;
            self.nodes[start + at].add_before(slot, live);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_as_a_plain_list(
            live in 0u64..1200,
            picks in prop::collection::vec(prop::option::weighted(0.8, 0usize..1 << 20), 0..3000),
        ) {
            let mut model: Vec<u64> = (0..live).collect();
            let mut bitmap = RankBitmap::with_live(live, live + 3000);
            for pick in picks {
                let mut old = 0;
                let mut expected = 0;
                if let (Some(pick), false) = (pick, model.is_empty()) {
                    let at = pick % model.len();
                    expected = (model.len() - at) as u32;
                    old = model.remove(at) + 1;
                }
                let mut distance = [0];
                model.push(bitmap.next());
                bitmap.replace_all(&[old], &mut distance);
                prop_assert_eq!(distance[0], expected);
            }
            let ranks = bitmap.block_ranks();
            for (rank, &position) in model.iter().enumerate() {
                prop_assert_eq!(bitmap.rank(&ranks, position), rank as u64);
            }
        }

        #[test]
        fn removal_is_seen_by_later_queries(count in 2u64..2000, gone in any::<prop::sample::Index>()) {
            let mut bitmap = RankBitmap::with_live(0, count + 1);
            bitmap.replace_all(&vec![0; count as usize], &mut vec![0; count as usize]);
            let gone = 1 + gone.index(count as usize - 1) as u64;
            bitmap.remove(gone);
            let mut distance = [0];
            bitmap.replace_all(&[1], &mut distance);
            prop_assert_eq!(u64::from(distance[0]), count - 1);
        }
    }

    #[test]
    fn a_tree_of_many_levels_counts_across_nodes() {
        let live = 16 * 16 * 16 * 512 * 2;
        let mut bitmap = RankBitmap::with_live(live, live + 600);
        let mut distances = [0; 3];
        bitmap.replace_all(&[1, live, live / 2 + 1], &mut distances);
        assert_eq!(distances.map(u64::from), [live, 2, live / 2 + 1]);
    }
}
