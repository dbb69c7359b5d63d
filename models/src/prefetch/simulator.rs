// SPDX-License-Identifier: Apache-2.0
//! Simulates reads and writes through a cache with a readahead policy.

use super::cache::{PageCache, Reason};
use super::config::PrefetchConfig;
use super::native::{Instance, Requests, WindowContext};
use super::registry::{KERNEL_MODEL, Prefetcher, find};
use super::stats::{Ahead, PrefetchStats};
use super::window::{self, Window};
use crate::error::Result;
use crate::policy;
use crate::trace::page_key;
use std::collections::HashMap;
use std::ops::Range;

/// `enum cache_ext_trigger`.
const MISS: u32 = 0;
const MARK: u32 = 1;
/// `prev_index` of a file that has not been read yet.
const NEVER: u64 = u64::MAX;

/// Number of pages that the kernel looks up at a time in a read (`PAGEVEC_SIZE`).
const BATCH_PAGES: u64 = 31;
/// Default size of the largest request to a device: 1280 KiB, in pages. A read of more pages than
/// the largest window is read in requests of this size.
const DEVICE_PAGES: u64 = 320;

/// One read or one write of consecutive pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Any number that identifies the file; in traces [`crate::trace::Record::file_key`].
    pub file: u64,
    /// First page.
    pub index: u64,
    /// Number of pages from `index` on.
    pub pages: u64,
    /// Task that makes the access; 0 if it is not known. Each task has each file open once.
    pub task: u32,
    /// Time in nanoseconds, if known.
    pub time_ns: Option<u64>,
    /// Whether it is a write of whole pages.
    pub write: bool,
}

impl Default for Access {
    fn default() -> Self {
        Self { file: 0, index: 0, pages: 1, task: 0, time_ns: None, write: false }
    }
}

impl Access {
    /// Returns the index after the last page.
    pub(super) fn end(&self) -> u64 {
        self.index.saturating_add(self.pages)
    }
}

/// Why a policy is asked: the page, and how many pages the reader wants from there on.
#[derive(Debug, Clone, Copy)]
struct Cause {
    index: u64,
    wanted: u64,
    trigger: u32,
}

/// Readahead state that the kernel keeps with an open file.
#[derive(Debug, Clone, Copy)]
struct OpenFile {
    prev_index: u64,
    start: u64,
    size: u32,
    async_size: u32,
}

/// A cache with a readahead policy, and the model of the kernel as a fallback.
#[derive(Debug)]
pub struct Simulator {
    config: PrefetchConfig,
    policy: Instance,
    kernel: Instance,
    cache: PageCache,
    open: HashMap<(u64, u32), OpenFile>,
    stats: PrefetchStats,
}

impl Simulator {
    /// Creates a simulator with a cold cache.
    ///
    /// # Errors
    /// [`crate::Error::Argument`] for a capacity, a window or a number of tunables that is not
    /// allowed, and those of [`policy::Instance::new`].
    pub fn new(policy: &Prefetcher, config: PrefetchConfig) -> Result<Self> {
        config.check(policy.manifest.tunable_words())?;
        let evicting = policy::Instance::new(config.eviction.policy, &config.cache)?;
        Ok(Self {
            policy: Instance::new(policy, config.tunables.clone()),
            kernel: Instance::new(find(KERNEL_MODEL)?, Vec::new()),
            cache: PageCache::new(evicting)?,
            config,
            open: HashMap::new(),
            stats: PrefetchStats::default(),
        })
    }

    /// Serves the accesses in order.
    ///
    /// # Errors
    /// [`crate::Error::Policy`] when memory runs out.
    pub fn run(&mut self, accesses: impl IntoIterator<Item = Access>) -> Result<()> {
        accesses.into_iter().try_for_each(|access| self.access(access).map(drop))
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn stats(&self) -> PrefetchStats {
        let [pending, own] = self.cache.pending();
        PrefetchStats {
            ahead: Ahead { pending, ..self.cache.ahead },
            own: Ahead { pending: own, ..self.cache.own },
            ..self.stats
        }
    }

    /// Serves one access. Returns false if it is a read of which some pages were not cached.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn access(&mut self, access: Access) -> Result<bool> {
        self.cache.begin(access.task, access.time_ns);
        let hit = if access.write {
            self.write(access)?;
            true
        } else {
            self.read(access)?
        };
        self.cache.end(access.pages);
        Ok(hit)
    }

    fn write(&mut self, access: Access) -> Result<()> {
        self.stats.writes += access.pages;
        for index in access.index..access.end() {
            let key = page_key(access.file, index);
            if !self.cache.holds(key) {
                self.cache.add(key, Reason::Demand, false)?;
            }
            self.touch(access, index);
        }
        Ok(())
    }

    fn touch(&mut self, access: Access, index: u64) {
        if self.cache.access(page_key(access.file, index)) == Reason::Policy {
            self.policy.used(&self.cache, access.task, access.file, index);
        }
    }

    /// Reads pages as `filemap_read()` does: it processes runs of cached pages, and calls readahead
    /// before a page that is not cached. A run ends with a page that has a mark.
    fn read(&mut self, access: Access) -> Result<bool> {
        let (mut at, end) = (access.index, access.end());
        let hit = (at..end).all(|index| self.cache.holds(page_key(access.file, index)));
        self.stats.reads += access.pages;
        while at < end {
            // Pages before `there` have just been read, even if the eviction policy did not admit
            // them.
            let mut there = at;
            if !self.cache.holds(page_key(access.file, at)) {
                self.stats.waits += 1;
                let cause = Cause { index: at, wanted: end - at, trigger: MISS };
                there = self.read_ahead(access, cause)?;
            }
            let run = self.run_of(access.file, at, there, end);
            let last = run.end - 1;
            if self.cache.take_mark(page_key(access.file, last)) {
                let cause = Cause { index: last, wanted: end - last, trigger: MARK };
                self.read_ahead(access, cause)?;
            }
            at = run.end;
            run.for_each(|index| self.touch(access, index));
        }
        // The kernel also keeps where the read ended: the first byte after it.
        self.open_file(access).prev_index = end;
        Ok(hit)
    }

    /// Returns the run of pages from `at` that is looked up at once. Pages before `there` count as
    /// present in any case.
    fn run_of(&self, file: u64, at: u64, there: u64, end: u64) -> Range<u64> {
        let most = end.min(at.saturating_add(BATCH_PAGES));
        let mut until = at;
        while until < most {
            let key = page_key(file, until);
            if until > at && until >= there && !self.cache.holds(key) {
                break;
            }
            until += 1;
            if self.cache.has_mark(key) {
                break;
            }
        }
        at..until
    }

    fn open_file(&mut self, access: Access) -> &mut OpenFile {
        let fresh = OpenFile { prev_index: NEVER, start: 0, size: 0, async_size: 0 };
        self.open.entry((access.file, access.task)).or_insert(fresh)
    }

    fn context(&mut self, access: Access, cause: Cause) -> WindowContext {
        let open = *self.open_file(access);
        let window = u64::from(self.config.max_window_pages);
        let whole = cause.wanted.min(DEVICE_PAGES).max(window);
        WindowContext {
            file: access.file,
            index: cause.index,
            nr_wanted: cause.wanted,
            file_pages: self.config.file_pages.of(access.file, access.end() - 1),
            prev_index: open.prev_index,
            last_start: open.start,
            last_size: open.size,
            last_async_size: open.async_size,
            max_pages: whole as u32,
            trigger: cause.trigger,
            folio_pages: 1,
            ..WindowContext::default()
        }
    }

    /// Asks the policy for a window and reads it. After a miss, the wanted pages come first if the
    /// window does not cover them. Returns the end of the wanted pages that were read.
    fn read_ahead(&mut self, access: Access, cause: Cause) -> Result<u64> {
        let capacity = self.config.cache.capacity_pages;
        let context = self.context(access, cause);
        let mut asked = context;
        let mut queue = Requests::new();
        let mut reason = Reason::Policy;
        self.stats.asked += 1;
        if !self.policy.decide(&self.cache, access.task, &mut asked, &mut queue) {
            self.stats.declined += 1;
            reason = Reason::Kernel;
            asked = context;
            self.kernel.decide(&self.cache, access.task, &mut asked, &mut Requests::new());
        }
        let window = Window::bounded(&asked, capacity);
        let wanted = match cause.trigger {
            MISS => cause.index..cause.index + cause.wanted,
            _ => 0..0,
        };
        let mut there = window.start.saturating_add(window.size);
        if !wanted.is_empty() && !window.covers(cause.index) {
            there = cause.index + cause.wanted.min(u64::from(context.max_pages));
            let pages = (cause.index..there).map(|page| (page, false));
            self.fetch(access.file, pages, &wanted, reason)?;
        }
        if window.times == 1 {
            let open = self.open_file(access);
            open.start = window.start;
            open.size = window.size as u32;
            open.async_size = window.async_size as u32;
        }
        self.fetch(access.file, window.pages(context.file_pages), &wanted, reason)?;
        for (start, size) in queue {
            let most = size.min(window::most_pages(&context, capacity));
            let end = start.saturating_add(most).min(context.file_pages);
            let pages = (start..end).map(|page| (page, false));
            self.fetch(access.file, pages, &(0..0), Reason::Policy)?;
        }
        Ok(there)
    }

    /// Reads those of `pages` that are not cached. The pages in `wanted` were requested by the
    /// application, the others are read ahead. A run of neighbours counts as one read of the disk.
    fn fetch(
        &mut self,
        file: u64,
        pages: impl Iterator<Item = (u64, bool)>,
        wanted: &Range<u64>,
        ahead: Reason,
    ) -> Result<()> {
        let mut after = None;
        for (page, marked) in pages {
            let key = page_key(file, page);
            if self.cache.holds(key) {
                continue;
            }
            let reason = if wanted.contains(&page) { Reason::Demand } else { ahead };
            self.stats.misses += u64::from(reason == Reason::Demand);
            self.cache.add(key, reason, marked)?;
            self.stats.disk_pages += 1;
            self.stats.disk_reads += u64::from(after != Some(page));
            after = Some(page.wrapping_add(1));
        }
        Ok(())
    }
}
