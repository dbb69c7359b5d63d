// SPDX-License-Identifier: Apache-2.0
//! The page cache of a simulation, which tracks the fate of the pages that were read ahead.

use super::native::WindowContext;
use super::stats::Ahead;
use crate::error::Result;
use crate::policy::Instance;
use crate::trace::page_key;
use std::collections::HashMap;
use std::ops::Range;

/// Largest distance from an index at which the cache is searched, as in the kernel.
const MAX_LOOK: u64 = 512;
/// More pages than one addition can evict: those of a request for 32, and one that the kernel
/// chooses itself.
const MAX_EVICTED: usize = 64;

/// Returns the distances from an index that the kernel looks at.
fn looked_at(window: &WindowContext) -> Range<u64> {
    1..u64::from(window.max_pages).clamp(1, MAX_LOOK)
}

/// Why a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// An application requested it.
    Demand,
    /// The model of the kernel reads it ahead.
    Kernel,
    /// The readahead policy reads it ahead.
    Policy,
}

/// State of a page until its first access.
#[derive(Debug, Clone, Copy)]
struct Noted {
    reason: Reason,
    marked: bool,
}

/// The cache.
#[derive(Debug)]
pub(super) struct PageCache {
    instance: Instance,
    noted: HashMap<u64, Noted>,
    /// Counts of the pages that were read ahead.
    pub ahead: Ahead,
    /// Counts of those that the readahead policy decided on.
    pub own: Ahead,
}

impl PageCache {
    pub(super) fn new(mut instance: Instance) -> Result<Self> {
        instance.log_evictions(MAX_EVICTED)?;
        let (noted, ahead, own) = (HashMap::new(), Ahead::default(), Ahead::default());
        Ok(Self { instance, noted, ahead, own })
    }

    pub(super) fn holds(&self, key: u64) -> bool {
        self.instance.holds(key)
    }

    /// Begins an access by a task, at `time_ns` if the time is known.
    pub(super) fn begin(&mut self, task: u32, time_ns: Option<u64>) {
        self.instance.begin_request(task, time_ns);
    }

    /// Ends the access, which was to this many pages.
    pub(super) fn end(&mut self, pages: u64) {
        self.instance.end_request(pages);
    }

    /// Returns the number of pages that were read ahead and not accessed yet: all of them, and
    /// those that the policy decided on.
    pub(super) fn pending(&self) -> [u64; 2] {
        let of = |reason| self.noted.values().filter(|noted| noted.reason == reason).count() as u64;
        [of(Reason::Kernel) + of(Reason::Policy), of(Reason::Policy)]
    }

    /// Applies a change to the counts that a page read for `reason` belongs to.
    fn count(&mut self, reason: Reason, change: impl Fn(&mut Ahead)) {
        if reason != Reason::Demand {
            change(&mut self.ahead);
        }
        if reason == Reason::Policy {
            change(&mut self.own);
        }
    }

    /// Adds a page that is not cached.
    pub(super) fn add(&mut self, key: u64, reason: Reason, marked: bool) -> Result<()> {
        self.instance.add_page(key, reason != Reason::Demand)?;
        self.count(reason, |ahead| ahead.pages += 1);
        if marked || reason != Reason::Demand {
            self.noted.insert(key, Noted { reason, marked });
        }
        let evicted = self.instance.take_evictions();
        debug_assert_eq!(evicted.lost, 0);
        let keys: Vec<u64> = evicted.entries.iter().map(|eviction| eviction.key).collect();
        for key in keys {
            if let Some(noted) = self.noted.remove(&key) {
                self.count(noted.reason, |ahead| ahead.wasted += 1);
            }
        }
        Ok(())
    }

    /// Returns whether the page has the mark that triggers the next window.
    pub(super) fn has_mark(&self, key: u64) -> bool {
        self.noted.get(&key).is_some_and(|noted| noted.marked)
    }

    /// Like [`Self::has_mark`], and removes the mark.
    pub(super) fn take_mark(&mut self, key: u64) -> bool {
        self.noted.get_mut(&key).is_some_and(|noted| std::mem::take(&mut noted.marked))
    }

    /// Accesses a page. If this is the first access since the page was read, returns why it was
    /// read; otherwise [`Reason::Demand`].
    pub(super) fn access(&mut self, key: u64) -> Reason {
        self.instance.access_page(key);
        let reason = self.noted.remove(&key).map_or(Reason::Demand, |noted| noted.reason);
        self.count(reason, |ahead| ahead.used += 1);
        reason
    }

    /// Returns the number of consecutive cached pages directly before the index, up to the distance
    /// that the kernel looks at.
    pub(super) fn cached_before(&self, window: &WindowContext) -> u64 {
        let cached = |back: &u64| self.holds(page_key(window.file, window.index - back));
        looked_at(window).take_while(|back| *back <= window.index).take_while(cached).count() as u64
    }

    /// Returns the number of consecutive cached pages directly after the index.
    pub(super) fn cached_after(&self, window: &WindowContext) -> u64 {
        let cached = |ahead: &u64| self.holds(page_key(window.file, window.index + ahead));
        looked_at(window).take_while(cached).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{InstanceConfig, find};

    fn cache(capacity_pages: u64) -> PageCache {
        let config = InstanceConfig { capacity_pages, batch: 1, seed: 1, tunables: Vec::new() };
        PageCache::new(Instance::new(find("lru").unwrap(), &config).unwrap()).unwrap()
    }

    fn add(cache: &mut PageCache, index: u64, reason: Reason, marked: bool) {
        cache.add(page_key(1, index), reason, marked).unwrap();
    }

    #[test]
    fn pages_read_ahead_are_used_once_or_wasted_when_evicted() {
        let mut cache = cache(2);
        cache.begin(0, None);
        add(&mut cache, 0, Reason::Demand, false);
        add(&mut cache, 1, Reason::Kernel, true);
        assert_eq!(cache.access(page_key(1, 0)), Reason::Demand);
        assert_eq!(cache.access(page_key(1, 0)), Reason::Demand);
        add(&mut cache, 2, Reason::Policy, false);
        assert!(!cache.holds(page_key(1, 1)), "the oldest one, which was never accessed");
        assert!(!cache.take_mark(page_key(1, 1)), "with its mark");
        assert_eq!(cache.ahead, Ahead { pages: 2, used: 0, wasted: 1, pending: 0 });
        assert_eq!(cache.access(page_key(1, 2)), Reason::Policy);
        assert_eq!(cache.access(page_key(1, 2)), Reason::Demand, "only the first");
        assert_eq!(cache.ahead, Ahead { pages: 2, used: 1, wasted: 1, pending: 0 });
        assert_eq!(cache.own, Ahead { pages: 1, used: 1, wasted: 0, pending: 0 });
    }

    #[test]
    fn neighbours_are_counted_up_to_a_gap_the_start_or_as_many_as_are_looked_at() {
        let mut cache = cache(64);
        for page in (0..40).filter(|page| *page != 20) {
            add(&mut cache, page, Reason::Demand, false);
        }
        let at = |index, max_pages| WindowContext {
            file: 1,
            index,
            max_pages,
            ..WindowContext::default()
        };
        assert_eq!(cache.cached_before(&at(25, 32)), 4);
        assert_eq!(cache.cached_before(&at(20, 32)), 20, "from the start");
        assert_eq!(cache.cached_before(&at(20, 8)), 7, "one less than are looked at");
        assert_eq!(cache.cached_after(&at(30, 32)), 9);
        assert_eq!(cache.cached_after(&at(0, 32)), 19);
    }
}
