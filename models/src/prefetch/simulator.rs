// SPDX-License-Identifier: Apache-2.0
//! Accesses to single pages through a cache with a readahead policy.

use super::cache::{PageCache, Reason, page_key};
use super::config::PrefetchConfig;
use super::native::{Instance, Requests, WindowContext};
use super::registry::{KERNEL_MODEL, Prefetcher, find};
use super::stats::{Ahead, PrefetchStats};
use super::window::{self, Window};
use crate::error::Result;
use crate::policy;
use std::collections::HashMap;

/// `enum cache_ext_trigger`.
const MISS: u32 = 0;
const MARK: u32 = 1;
/// `prev_index` of a file that was not read from yet.
const NEVER: u64 = u64::MAX;

/// One access to a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Access {
    /// Any number that stands for the file; in traces [`crate::trace::Record::file_key`].
    pub file: u64,
    /// The page.
    pub index: u64,
    /// Who accesses it; 0 where that is not known. Each task has each file open once.
    pub task: u32,
    /// When, in nanoseconds, if that is known.
    pub time_ns: Option<u64>,
    /// Whether it is a write of the whole page.
    pub write: bool,
}

/// What the kernel keeps with an open file.
#[derive(Debug, Clone, Copy)]
struct OpenFile {
    prev_index: u64,
    start: u64,
    size: u32,
    async_size: u32,
}

/// A cache with a readahead policy, and the model of the kernel below it.
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
    /// A cold cache.
    ///
    /// # Errors
    /// [`crate::Error::Argument`] for a capacity, a window or a number of tunables that cannot be,
    /// and those of [`policy::Instance::new`].
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

    /// Serves one access after the other.
    ///
    /// # Errors
    /// [`crate::Error::Policy`] when memory runs out.
    pub fn run(&mut self, accesses: impl IntoIterator<Item = Access>) -> Result<()> {
        accesses.into_iter().try_for_each(|access| self.access(access).map(drop))
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> PrefetchStats {
        let [pending, own] = self.cache.pending();
        PrefetchStats {
            ahead: Ahead { pending, ..self.cache.ahead },
            own: Ahead { pending: own, ..self.cache.own },
            ..self.stats
        }
    }

    /// Serves one access; false if it is a read that had to wait.
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
        let key = page_key(access.file, access.index);
        if self.cache.access(key) == Reason::Policy {
            self.policy.used(&self.cache, access.task, access.file, access.index);
        }
        self.cache.end();
        Ok(hit)
    }

    fn write(&mut self, access: Access) -> Result<()> {
        let key = page_key(access.file, access.index);
        self.stats.writes += 1;
        if self.cache.holds(key) { Ok(()) } else { self.cache.add(key, Reason::Demand, false) }
    }

    /// A miss, and then the mark that its window may have put there, as `filemap_get_pages()` looks.
    fn read(&mut self, access: Access) -> Result<bool> {
        let key = page_key(access.file, access.index);
        let hit = self.cache.holds(key);
        self.stats.reads += 1;
        if !hit {
            self.stats.misses += 1;
            self.read_ahead(access, MISS)?;
        }
        if self.cache.take_mark(key) {
            self.read_ahead(access, MARK)?;
        }
        // Where the read ended: the kernel keeps the first byte that was not read.
        self.open_file(access).prev_index = access.index.saturating_add(1);
        Ok(hit)
    }

    fn open_file(&mut self, access: Access) -> &mut OpenFile {
        let fresh = OpenFile { prev_index: NEVER, start: 0, size: 0, async_size: 0 };
        self.open.entry((access.file, access.task)).or_insert(fresh)
    }

    fn context(&mut self, access: Access, trigger: u32) -> WindowContext {
        let open = *self.open_file(access);
        WindowContext {
            file: access.file,
            index: access.index,
            nr_wanted: 1,
            file_pages: self.config.file_pages.of(access.file, access.index),
            prev_index: open.prev_index,
            last_start: open.start,
            last_size: open.size,
            last_async_size: open.async_size,
            max_pages: self.config.max_window_pages,
            trigger,
            folio_pages: 1,
            ..WindowContext::default()
        }
    }

    fn read_ahead(&mut self, access: Access, trigger: u32) -> Result<()> {
        let capacity = self.config.cache.capacity_pages;
        let context = self.context(access, trigger);
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
        let demand = (trigger == MISS).then_some(access.index);
        if demand.is_some() && !window.covers(access.index) {
            self.fetch(access.file, std::iter::once((access.index, false)), demand, reason)?;
        }
        if window.times == 1 {
            let open = self.open_file(access);
            open.start = window.start;
            open.size = window.size as u32;
            open.async_size = window.async_size as u32;
        }
        self.fetch(access.file, window.pages(context.file_pages), demand, reason)?;
        for (start, size) in queue {
            let most = size.min(window::most_pages(&context, capacity));
            let end = start.saturating_add(most).min(context.file_pages);
            let pages = (start..end).map(|page| (page, false));
            self.fetch(access.file, pages, None, Reason::Policy)?;
        }
        Ok(())
    }

    /// Brings what is not cached of some pages, of which `demand` was asked for; runs of neighbours
    /// are one read of the disk.
    fn fetch(
        &mut self,
        file: u64,
        pages: impl Iterator<Item = (u64, bool)>,
        demand: Option<u64>,
        ahead: Reason,
    ) -> Result<()> {
        let mut after = None;
        for (page, marked) in pages {
            let key = page_key(file, page);
            if self.cache.holds(key) {
                continue;
            }
            let reason = if Some(page) == demand { Reason::Demand } else { ahead };
            self.cache.add(key, reason, marked)?;
            self.stats.disk_pages += 1;
            self.stats.disk_reads += u64::from(after != Some(page));
            after = Some(page.wrapping_add(1));
        }
        Ok(())
    }
}
