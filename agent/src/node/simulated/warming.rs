// SPDX-License-Identifier: Apache-2.0
//! Reads pages for future tenants, so that they do not begin with an empty page cache.
//!
//! One page is read at a time, whatever the number of future tenants, so that a running tenant
//! finds at most one more read in the queue of the device. Lists are read one after another in the
//! order in which they arrived: the sooner the first one is complete, the sooner its tenant can
//! come.
//!
//! The pages read take no memory from the running tenants; all lists together are no larger than
//! the memory of the node.

use super::device::Device;
use super::validate::MAX_TENANTS;
use std::collections::{BTreeMap, VecDeque};

/// Pages of a future tenant, the least recently used first.
struct List {
    name: String,
    keys: Vec<u64>,
    /// Number of pages that were read.
    read: usize,
    /// Whether the next page is being read.
    reading: bool,
}

/// The lists of a node, and the read of theirs that the device is serving.
pub(super) struct Warming {
    most_pages: u64,
    /// Lists with pages that are still to be read; the first one is next.
    unread: VecDeque<List>,
    /// Pages of the complete lists.
    read: BTreeMap<String, Vec<u64>>,
    /// When the present read was submitted.
    submitted_ns: Option<u64>,
    /// Whether a turn is in the queue.
    awake: bool,
}

impl Warming {
    pub(super) fn new(most_pages: u64) -> Self {
        Self {
            most_pages,
            unread: VecDeque::new(),
            read: BTreeMap::new(),
            submitted_ns: None,
            awake: false,
        }
    }

    /// The number of pages that the list `name` may have; `None` if there are too many lists.
    pub(super) fn room(&self, name: &str) -> Option<u64> {
        let unread = self.unread.iter().map(|list| (&list.name, &list.keys));
        let others = || unread.clone().chain(&self.read).filter(|(other, _)| *other != name);
        let pages: u64 = others().map(|(_, keys)| keys.len() as u64).sum();
        (others().count() < MAX_TENANTS).then(|| self.most_pages.saturating_sub(pages))
    }

    /// Begins to read a list, and replaces one of the same name if there is one.
    pub(super) fn begin(&mut self, name: &str, keys: Vec<u64>) {
        self.forget(name);
        if keys.is_empty() {
            self.read.insert(name.to_owned(), keys);
        } else {
            self.unread.push_back(List { name: name.to_owned(), keys, read: 0, reading: false });
        }
    }

    /// Drops a list, with the pages that were read.
    pub(super) fn forget(&mut self, name: &str) {
        self.read.remove(name);
        self.unread.retain(|list| list.name != name);
    }

    /// Whether all of a list was read.
    pub(super) fn is_complete(&self, name: &str) -> bool {
        self.read.contains_key(name)
    }

    /// The pages of a list that were read, in its order.
    pub(super) fn so_far(&self, name: &str) -> &[u64] {
        if let Some(keys) = self.read.get(name) {
            return keys;
        }
        let part = self.unread.iter().find(|list| list.name == name);
        part.map_or(&[], |list| &list.keys[..list.read])
    }

    /// Whether it needs a turn now. If so, counts that turn as queued.
    pub(super) fn wakes(&mut self) -> bool {
        let wakes = !self.awake && !self.unread.is_empty();
        self.awake |= wakes;
        wakes
    }

    /// Continues: the present read has ended, if there was one. Returns when the next one ends.
    pub(super) fn turn(&mut self, now_ns: u64, device: &mut Device) -> Option<u64> {
        if let Some(submitted_ns) = self.submitted_ns.take() {
            device.complete(submitted_ns, now_ns);
            self.read_ended();
        }
        let Some(next) = self.unread.front_mut() else {
            self.awake = false;
            return None;
        };
        next.reading = true;
        self.submitted_ns = Some(now_ns);
        Some(device.submit(now_ns))
    }

    /// Counts the read for the first list, unless that was dropped in the meantime.
    fn read_ended(&mut self) {
        let Some(first) = self.unread.front_mut().filter(|list| list.reading) else { return };
        first.reading = false;
        first.read += 1;
        if first.read == first.keys.len()
            && let Some(list) = self.unread.pop_front()
        {
            self.read.insert(list.name, list.keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::DeviceConfig;
    use super::*;

    fn device() -> Device {
        Device::new(&DeviceConfig { read_us: 1.0, parallelism: 4, iops: 1_000_000 })
    }

    #[test]
    fn lists_are_read_one_after_another_one_page_at_a_time() {
        let (mut warming, mut device) = (Warming::new(10), device());
        assert!(!warming.wakes(), "there is nothing to read");
        warming.begin("b", vec![5, 6]);
        warming.begin("a", vec![7]);
        warming.begin("c", vec![]);
        assert!(warming.wakes() && !warming.wakes() && warming.is_complete("c"));
        let mut now_ns = 0;
        for seen in [(0, 0), (1, 0), (2, 0)] {
            now_ns = warming.turn(now_ns, &mut device).unwrap();
            assert_eq!((warming.so_far("b").len(), warming.so_far("a").len()), seen);
        }
        assert_eq!(
            (now_ns, warming.is_complete("b"), warming.is_complete("a")),
            (3000, true, false)
        );
        assert_eq!(warming.turn(now_ns, &mut device), None);
        assert_eq!((warming.so_far("b"), warming.so_far("a")), (&[5, 6][..], &[7][..]));
        assert_eq!(device.wire().reads_total, 3);
        warming.begin("a", vec![8]);
        assert!(warming.wakes() && warming.so_far("a").is_empty(), "another list");
    }

    #[test]
    fn the_read_of_a_list_that_was_forgotten_is_of_no_other() {
        let (mut warming, mut device) = (Warming::new(10), device());
        warming.begin("a", vec![1, 2]);
        warming.begin("b", vec![3]);
        assert!(warming.wakes());
        let now_ns = warming.turn(0, &mut device).unwrap();
        warming.forget("a");
        let now_ns = warming.turn(now_ns, &mut device).unwrap();
        assert!(warming.so_far("a").is_empty() && warming.so_far("b").is_empty());
        assert_eq!(warming.turn(now_ns, &mut device), None);
        assert_eq!((warming.so_far("b"), device.wire().reads_total), (&[3][..], 2));
    }

    #[test]
    fn all_lists_together_have_room() {
        let mut warming = Warming::new(10);
        warming.begin("a", vec![1, 2]);
        warming.begin("b", vec![3]);
        assert_eq!(
            (warming.room("a"), warming.room("b"), warming.room("c")),
            (Some(9), Some(8), Some(7))
        );
        (0..MAX_TENANTS).for_each(|i| warming.begin(&i.to_string(), vec![]));
        assert_eq!(warming.room("c"), None);
    }
}
