// SPDX-License-Identifier: Apache-2.0
//! Threads that read pages of a file by Zipf's law, in a process of a cgroup, until told to stop.

use crate::cgroup::Cgroup;
use crate::child::{self, Child};
use crate::ensure;
use crate::error::{Error, Result};
use crate::files::{TestFile, read_page};
use crate::mapping::Mapping;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Skew of the accesses.
const THETA: f64 = 0.99;
const PATIENCE: Duration = Duration::from_secs(60);

#[repr(C)]
struct Shared {
    stop: AtomicU64,
    reads: AtomicU64,
}

/// A load that runs.
pub struct Load {
    child: Child,
    memory: Mapping,
}

/// Reads and misses of a stretch of time.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Pages read.
    pub reads: u64,
    /// Folios that were added for it.
    pub misses: u64,
}

impl Window {
    /// Misses of each read.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn miss_ratio(self) -> f64 {
        self.misses as f64 / self.reads.max(1) as f64
    }
}

/// SplitMix64.
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Pages in the order of their ranks, far from each other, so that hot ones share no neighbourhood.
fn scatter(rank: u64, pages: u64) -> u64 {
    let mut state = rank;
    next_random(&mut state) % pages
}

/// Pages by Zipf's law, drawn by every thread for itself: of threads on one sequence, those behind
/// would hit what the first has just read, catch up with it, and miss less from then on.
struct Zipf {
    /// Weights of the ranks up to each.
    sums: Vec<f64>,
}

impl Zipf {
    #[allow(clippy::cast_precision_loss)]
    fn new(pages: u64) -> Self {
        let weights = (1..=pages).map(|rank| (rank as f64).powf(-THETA));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect() }
    }

    #[allow(clippy::cast_precision_loss)]
    fn draw(&self, state: &mut u64) -> u64 {
        let uniform = (next_random(state) >> 11) as f64 / (1_u64 << 53) as f64;
        let all = self.sums.last().copied().unwrap_or(0.0);
        let rank = self.sums.partition_point(|&below| below < uniform * all);
        scatter(rank as u64, self.sums.len() as u64)
    }
}

/// How a thread opens the file, which says how the kernel reads ahead of it.
pub type Open = fn(&TestFile) -> Result<File>;

fn read_until_stopped(file: &TestFile, threads: usize, open: Open, shared: &Shared) -> Result<()> {
    let zipf = Zipf::new(file.pages);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let zipf = &zipf;
                scope.spawn(move || walk(&open(file)?, zipf, thread as u64, shared))
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::Check("a thread panicked".into())))
        })
    })
}

fn walk(file: &File, zipf: &Zipf, seed: u64, shared: &Shared) -> Result<()> {
    let mut state = scatter(seed, u64::MAX);
    while shared.stop.load(Ordering::Relaxed) == 0 {
        read_page(file, zipf.draw(&mut state))?;
        shared.reads.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Load {
    /// Starts threads that read the file in the cgroup without readahead, and waits until they do.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(cgroup: &Cgroup, file: &TestFile, threads: usize) -> Result<Self> {
        Self::start_advised(cgroup, file, threads, TestFile::open_random)
    }

    /// The same with a file that is opened as told.
    ///
    /// # Errors
    /// What the system says.
    pub fn start_advised(
        cgroup: &Cgroup,
        file: &TestFile,
        threads: usize,
        open: Open,
    ) -> Result<Self> {
        let memory = Mapping::shared(size_of::<Shared>())?;
        let work = || read_until_stopped(file, threads, open, shared(&memory));
        let child = child::spawn(cgroup, work)?;
        let load = Self { child, memory };
        let start = Instant::now();
        while load.reads() == 0 {
            ensure!(start.elapsed() < PATIENCE, "the load does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(load)
    }

    /// Pages read so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        shared(&self.memory).reads.load(Ordering::Relaxed)
    }

    /// What happens in a stretch of time.
    ///
    /// # Errors
    /// When nothing does.
    pub fn watch(&self, cgroup: &Cgroup, time: Duration) -> Result<Window> {
        self.watch_while(cgroup, || {
            thread::sleep(time);
            Ok(())
        })
    }

    /// What happens while something is done.
    ///
    /// # Errors
    /// Those of what is done, and when there are no reads.
    pub fn watch_while(
        &self,
        cgroup: &Cgroup,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Window> {
        let (reads, added) = (self.reads(), cgroup.stat()?.get("added"));
        work()?;
        let window =
            Window { reads: self.reads() - reads, misses: cgroup.stat()?.get("added") - added };
        ensure!(window.reads > 0, "the load stands still");
        Ok(window)
    }

    /// Waits for the end of one that was killed.
    ///
    /// # Errors
    /// When it ended by itself.
    pub fn was_killed(self) -> Result<()> {
        ensure!(self.child.wait().is_err(), "the load ended by itself");
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// When data was wrong, or the process died.
    pub fn stop(self) -> Result<u64> {
        shared(&self.memory).stop.store(1, Ordering::Relaxed);
        let reads = self.reads();
        self.child.wait()?;
        Ok(reads)
    }
}

fn shared(memory: &Mapping) -> &Shared {
    // SAFETY: the mapping is zeroed, as large as this, and atomic numbers may be shared.
    unsafe { &*memory.start().cast::<Shared>() }
}
