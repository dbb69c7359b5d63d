// SPDX-License-Identifier: Apache-2.0
//! Reads of single pages through a cache with a readahead policy.

use super::cache::PageCache;
use super::native::{Instance, Requests, WindowContext};
use super::registry::{KERNEL_MODEL, Prefetcher, find};
use super::window::{self, Window};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// `enum cache_ext_trigger`.
const MISS: u32 = 0;
const MARK: u32 = 1;
/// `prev_index` of a file that was not read from yet.
const NEVER: u64 = u64::MAX;
/// Least capacity: a window is a quarter of it at most.
const MIN_CAPACITY_PAGES: u64 = 4;

/// One read of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Any number that stands for the file.
    pub file: u64,
    /// The page.
    pub index: u64,
    /// Who reads; 0 where that is not known. Each task has each file open once.
    pub task: u32,
}

/// The machine of a simulation.
#[derive(Debug, Clone)]
pub struct PrefetchConfig {
    /// Pages that the cache holds.
    pub capacity: u64,
    /// Largest window of the kernel, `read_ahead_kb` of the device in pages.
    pub max_pages: u32,
    /// Pages of every file.
    pub file_pages: u64,
    /// Values of all tunables of the policy.
    pub tunables: Vec<u32>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Reads.
    pub accesses: u64,
    /// Those of pages that were not cached.
    pub misses: u64,
    /// Runs of pages that came from the disk in one piece.
    pub requests: u64,
    /// Pages that came from the disk.
    pub pages: u64,
    /// Pages that were read before they were asked for, by whoever decided it.
    pub ahead: u64,
    /// Of these, accessed since.
    pub used: u64,
    /// Evicted without an access.
    pub wasted: u64,
    /// Cached and not accessed yet.
    pub waiting: u64,
    /// Decisions.
    pub asked: u64,
    /// Those that the policy left to the kernel.
    pub declined: u64,
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
    /// [`Error::Argument`] for a capacity, a window or a number of tunables that cannot be.
    pub fn new(policy: &Prefetcher, config: PrefetchConfig) -> Result<Self> {
        let words = policy.manifest.tunable_words();
        if config.tunables.len() != words {
            let given = config.tunables.len();
            return Err(Error::argument("tunables", format!("{given} values are not {words}")));
        }
        if config.capacity < MIN_CAPACITY_PAGES || config.max_pages == 0 {
            let least = format!("less than {MIN_CAPACITY_PAGES} pages, or windows of none");
            return Err(Error::argument("capacity", least));
        }
        let capacity = usize::try_from(config.capacity)
            .map_err(|e| Error::argument("capacity", e.to_string()))?;
        Ok(Self {
            policy: Instance::new(policy, config.tunables.clone()),
            kernel: Instance::new(find(KERNEL_MODEL)?, Vec::new()),
            cache: PageCache::new(capacity),
            config,
            open: HashMap::new(),
            stats: PrefetchStats::default(),
        })
    }

    /// Reads one page after the other.
    pub fn run(&mut self, accesses: impl IntoIterator<Item = Access>) {
        for access in accesses {
            self.access(access);
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> PrefetchStats {
        PrefetchStats { wasted: self.cache.wasted, waiting: self.cache.waiting(), ..self.stats }
    }

    fn access(&mut self, access: Access) {
        let key = (access.file, access.index);
        self.stats.accesses += 1;
        match self.cache.touch(key) {
            Some(touched) => {
                if touched.marked {
                    self.read_ahead(access, MARK);
                }
                if touched.first {
                    self.stats.used += 1;
                    self.policy.used(&self.cache, access.task, access.file, access.index);
                }
            }
            None => {
                self.stats.misses += 1;
                self.read_ahead(access, MISS);
            }
        }
        self.open_file(access).prev_index = access.index;
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
            file_pages: self.config.file_pages.max(access.index + 1),
            prev_index: open.prev_index,
            last_start: open.start,
            last_size: open.size,
            last_async_size: open.async_size,
            max_pages: self.config.max_pages,
            trigger,
            folio_pages: 1,
            ..WindowContext::default()
        }
    }

    fn read_ahead(&mut self, access: Access, trigger: u32) {
        let context = self.context(access, trigger);
        let mut asked = context;
        let mut queue = Requests::new();
        self.stats.asked += 1;
        if !self.policy.decide(&self.cache, access.task, &mut asked, &mut queue) {
            self.stats.declined += 1;
            asked = context;
            self.kernel.decide(&self.cache, access.task, &mut asked, &mut Requests::new());
        }
        let window = Window::bounded(&asked, self.config.capacity);
        if trigger == MISS && !window.covers(access.index) {
            self.read(access, std::iter::once((access.index, false)));
        }
        if window.times == 1 {
            let open = self.open_file(access);
            open.start = window.start;
            open.size = window.size as u32;
            open.async_size = window.async_size as u32;
        }
        self.read(access, window.pages(context.file_pages));
        for (start, size) in queue {
            let most = size.min(window::most_pages(&context, self.config.capacity));
            let end = start.saturating_add(most).min(context.file_pages);
            self.read(access, (start..end).map(|page| (page, false)));
        }
    }

    /// Reads what is not cached of some pages; runs of neighbours are one request.
    fn read(&mut self, access: Access, pages: impl Iterator<Item = (u64, bool)>) {
        let mut after = None;
        for (page, marked) in pages {
            if self.cache.holds((access.file, page)) {
                continue;
            }
            let ahead = page != access.index;
            self.cache.add((access.file, page), ahead, marked);
            self.stats.pages += 1;
            self.stats.ahead += u64::from(ahead);
            self.stats.requests += u64::from(after != Some(page));
            after = Some(page + 1);
        }
    }
}
