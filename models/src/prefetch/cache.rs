// SPDX-License-Identifier: Apache-2.0
//! A page cache of fixed capacity that evicts the least recently used page.

use super::native::WindowContext;
use std::collections::HashMap;
use std::ops::Range;

/// Most pages that are looked for around an index, as in the kernel.
const MAX_LOOK: u64 = 512;
const NONE: usize = usize::MAX;

/// Distances from an index that the kernel looks at.
fn looked_at(window: &WindowContext) -> Range<u64> {
    1..u64::from(window.max_pages).clamp(1, MAX_LOOK)
}

/// File and index.
pub(super) type Key = (u64, u64);

#[derive(Debug, Clone, Copy)]
struct Page {
    key: Key,
    /// Towards the one used before it, and after it.
    older: usize,
    newer: usize,
    ahead: bool,
    marked: bool,
}

/// What an access found out about a page that is cached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Touched {
    /// It was read ahead and this is its first access.
    pub first: bool,
    /// It had the mark of a window.
    pub marked: bool,
}

/// The cache.
#[derive(Debug)]
pub(super) struct PageCache {
    capacity: usize,
    places: HashMap<Key, usize>,
    pages: Vec<Page>,
    oldest: usize,
    newest: usize,
    /// Pages that were evicted after they were read ahead, without an access.
    pub wasted: u64,
}

impl PageCache {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            places: HashMap::new(),
            pages: Vec::new(),
            oldest: NONE,
            newest: NONE,
            wasted: 0,
        }
    }

    pub(super) fn holds(&self, key: Key) -> bool {
        self.places.contains_key(&key)
    }

    /// Accesses a page that is cached; `None`: it is not.
    pub(super) fn touch(&mut self, key: Key) -> Option<Touched> {
        let place = *self.places.get(&key)?;
        self.unlink(place);
        self.link(place);
        let page = &mut self.pages[place];
        let touched = Touched { first: page.ahead, marked: page.marked };
        page.ahead = false;
        page.marked = false;
        Some(touched)
    }

    /// Takes in a page that is not cached, in place of the oldest one if there is no room.
    pub(super) fn add(&mut self, key: Key, ahead: bool, marked: bool) {
        let page = Page { key, older: NONE, newer: NONE, ahead, marked };
        let place = if self.pages.len() < self.capacity {
            self.pages.push(page);
            self.pages.len() - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.wasted += u64::from(self.pages[place].ahead);
            self.places.remove(&self.pages[place].key);
            self.pages[place] = page;
            place
        };
        self.places.insert(key, place);
        self.link(place);
    }

    /// Pages that were read ahead and not accessed yet.
    pub(super) fn waiting(&self) -> u64 {
        self.pages.iter().filter(|page| page.ahead).count() as u64
    }

    /// Cached pages right before the index, of as many as the kernel looks at.
    pub(super) fn cached_before(&self, window: &WindowContext) -> u64 {
        let cached = |back: &u64| self.holds((window.file, window.index - back));
        looked_at(window).take_while(|back| *back <= window.index).take_while(cached).count() as u64
    }

    /// Cached pages right behind it.
    pub(super) fn cached_after(&self, window: &WindowContext) -> u64 {
        let cached = |ahead: &u64| self.holds((window.file, window.index + ahead));
        looked_at(window).take_while(cached).count() as u64
    }

    fn unlink(&mut self, place: usize) {
        let Page { older, newer, .. } = self.pages[place];
        match older {
            NONE => self.oldest = newer,
            _ => self.pages[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.pages[newer].older = older,
        }
    }

    fn link(&mut self, place: usize) {
        let newest = self.newest;
        self.pages[place].older = newest;
        self.pages[place].newer = NONE;
        match newest {
            NONE => self.oldest = place,
            _ => self.pages[newest].newer = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_goes_and_counts_when_it_was_read_for_nothing() {
        let mut cache = PageCache::new(2);
        cache.add((1, 0), false, false);
        cache.add((1, 1), true, true);
        assert!(cache.touch((1, 0)).is_some_and(|touched| !touched.first));
        cache.add((1, 2), true, false);
        assert_eq!((cache.wasted, cache.holds((1, 1))), (1, false));
        assert!(cache.touch((1, 2)).is_some_and(|touched| touched.first && !touched.marked));
        assert!(cache.touch((1, 2)).is_some_and(|touched| !touched.first), "only the first");
        cache.add((1, 3), false, false);
        assert_eq!((cache.wasted, cache.waiting(), cache.holds((1, 0))), (1, 0, false));
    }

    #[test]
    fn neighbours_are_counted_up_to_a_gap_the_start_or_as_many_as_are_looked_at() {
        let mut cache = PageCache::new(64);
        (0..40).filter(|page| *page != 20).for_each(|page| cache.add((1, page), false, false));
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
