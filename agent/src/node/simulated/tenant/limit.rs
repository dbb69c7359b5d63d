// SPDX-License-Identifier: Apache-2.0
//! The memory limit of one tenant, which is raised at once and lowered in steps.

use crate::node::simulated::config::PAGE_BYTES;

/// A limit on the page cache and the memory that cannot be reclaimed together; 0 bytes means no
/// limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Limit {
    pub(in super::super) now_bytes: u64,
    pub(in super::super) target_bytes: u64,
    pub(in super::super) initial_bytes: u64,
    pub(in super::super) floor_bytes: u64,
    pub(in super::super) anon_bytes: u64,
    /// The memory of the node, which takes the place of a limit if there is none.
    pub(in super::super) budget_bytes: u64,
}

/// The result of setting a limit or a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Change {
    None,
    Done,
    Started,
}

impl Limit {
    /// The reason why a limit of `bytes` is refused; `None` if it is allowed.
    pub(in super::super) fn refuses(&self, bytes: u64) -> Option<String> {
        if bytes == 0 {
            return None;
        }
        if !bytes.is_multiple_of(PAGE_BYTES) {
            return Some(format!("limit_bytes: {bytes} is not whole pages of {PAGE_BYTES}"));
        }
        if !(self.floor_bytes..=self.budget_bytes).contains(&bytes) {
            let (floor, budget) = (self.floor_bytes, self.budget_bytes);
            return Some(format!(
                "limit_bytes: {bytes} is not between the floor of {floor} and the node's {budget}"
            ));
        }
        None
    }

    /// Sets the target of the limit. It is reached at once unless pages must be reclaimed for it;
    /// `file_bytes` is the size of the page cache.
    pub(in super::super) fn set(&mut self, bytes: u64, file_bytes: u64) -> Change {
        if bytes == self.target_bytes {
            return if self.is_moving() { Change::Started } else { Change::None };
        }
        self.target_bytes = bytes;
        if self.anon_bytes + file_bytes <= self.or_budget(bytes) {
            self.now_bytes = bytes;
            return Change::Done;
        }
        // The lowering begins at the memory that is in use.
        self.now_bytes = self.or_budget(self.now_bytes).min(self.anon_bytes + file_bytes);
        Change::Started
    }

    pub(in super::super) fn is_moving(&self) -> bool {
        self.now_bytes != self.target_bytes
    }

    /// Lowers the limit by at most `most_bytes`.
    pub(in super::super) fn step(&mut self, most_bytes: u64) {
        if self.is_moving() {
            self.now_bytes = self.target_bytes.max(self.now_bytes.saturating_sub(most_bytes));
        }
    }

    /// The number of pages that the page cache may have now.
    pub(in super::super) fn cache_pages(&self) -> u64 {
        ((self.or_budget(self.now_bytes).saturating_sub(self.anon_bytes)) / PAGE_BYTES).max(1)
    }

    fn or_budget(&self, bytes: u64) -> u64 {
        if bytes == 0 { self.budget_bytes } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    fn limit() -> Limit {
        Limit {
            now_bytes: 8 * MIB,
            target_bytes: 8 * MIB,
            initial_bytes: 8 * MIB,
            floor_bytes: 2 * MIB,
            anon_bytes: MIB,
            budget_bytes: 64 * MIB,
        }
    }

    #[test]
    fn rises_at_once_and_falls_in_steps() {
        let mut limit = limit();
        assert_eq!(limit.set(16 * MIB, 7 * MIB), Change::Done);
        assert_eq!(limit.cache_pages(), 15 * 256);
        assert_eq!(limit.set(16 * MIB, 15 * MIB), Change::None);
        assert_eq!(limit.set(13 * MIB, 15 * MIB), Change::Started);
        limit.step(2 * MIB);
        assert_eq!((limit.now_bytes, limit.is_moving()), (14 * MIB, true));
        limit.step(2 * MIB);
        assert_eq!((limit.now_bytes, limit.is_moving()), (13 * MIB, false));
    }

    #[test]
    fn without_a_limit_the_budget_is_one() {
        let mut limit = limit();
        assert_eq!(limit.set(0, 7 * MIB), Change::Done);
        assert_eq!((limit.now_bytes, limit.cache_pages()), (0, 63 * 256));
        assert_eq!(limit.set(8 * MIB, 20 * MIB), Change::Started);
        assert_eq!(limit.now_bytes, 21 * MIB);
    }

    #[test]
    fn refusals_say_why() {
        let limit = limit();
        assert_eq!(limit.refuses(0), None);
        assert_eq!(limit.refuses(2 * MIB), None);
        assert!(limit.refuses(2 * MIB - 4096).unwrap().contains("the floor of 2097152"));
        assert!(limit.refuses(5 * MIB + 1).unwrap().contains("not whole pages"));
        assert!(limit.refuses(65 * MIB).unwrap().contains("the node's 67108864"));
    }

    proptest! {
        #[test]
        fn never_below_the_floor_and_always_there_in_the_end(
            wanted in prop::collection::vec((0u64..20_000, 0u64..16_000), 1..40),
        ) {
            let mut limit = limit();
            for (pages, file_pages) in wanted {
                let bytes = pages * PAGE_BYTES;
                if limit.refuses(bytes).is_some() {
                    continue;
                }
                limit.set(bytes, file_pages.min(limit.cache_pages()) * PAGE_BYTES);
                for _ in 0..3 {
                    limit.step(MIB);
                    let floor = limit.floor_bytes;
                    prop_assert!(limit.now_bytes == 0 || limit.now_bytes >= floor);
                }
            }
            (0..64).for_each(|_| limit.step(MIB));
            prop_assert!(!limit.is_moving());
        }
    }
}
