// SPDX-License-Identifier: Apache-2.0
//! Runs readahead policies over a recorded trace, all of them in one pass.

use super::config::{FilePages, PrefetchConfig};
use super::registry::Prefetcher;
use super::simulator::{Access, Simulator};
use super::stats::PrefetchStats;
use crate::error::{Error, Result};
use crate::simulation::thread_pool;
use crate::trace::{Record, RecordReader, TraceReader};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One simulated machine.
#[derive(Debug, Clone)]
pub struct PrefetchJob {
    /// The readahead policy.
    pub policy: &'static Prefetcher,
    /// The machine that it runs on.
    pub config: PrefetchConfig,
}

/// Outcome of a [`PrefetchJob`].
#[derive(Debug, Clone, Copy)]
pub struct PrefetchOutcome {
    /// Counts of the simulation.
    pub stats: PrefetchStats,
    /// Time spent in this simulation alone, without reading the trace.
    pub time: Duration,
}

struct Running {
    simulator: Simulator,
    time: Duration,
}

impl Running {
    fn run(&mut self, accesses: &[Access]) -> Result<()> {
        let start = Instant::now();
        self.simulator.run(accesses.iter().copied())?;
        self.time += start.elapsed();
        Ok(())
    }
}

/// Opens a trace, and checks that it records the file and the page of each access.
fn open(path: &Path) -> Result<RecordReader> {
    let reader = RecordReader::open(path)?;
    if reader.header().opaque_keys {
        let message = "has page keys only: readahead needs the file and the index of every access";
        return Err(Error::format(path, message));
    }
    Ok(reader)
}

/// Calls `each` with all records, in order, and `progress` with the share of the trace read.
fn for_each(
    path: &Path,
    progress: &mut dyn FnMut(f64) -> Result<()>,
    mut each: impl FnMut(&[Record], bool) -> Result<()>,
) -> Result<()> {
    let mut reader = open(path)?;
    let has_times = reader.header().has_times;
    let mut records = Vec::new();
    loop {
        reader.next_records(&mut records)?;
        if records.is_empty() {
            return Ok(());
        }
        each(&records, has_times)?;
        progress(reader.progress())?;
    }
}

/// Groups records into reads and writes: neighbouring pages that one task accessed at one time
/// belong to one call. Without times, every record is a call of its own.
fn calls(records: &[Record], has_times: bool) -> impl Iterator<Item = &[Record]> {
    records.chunk_by(move |one, next| {
        let expected = Record { index: one.index.wrapping_add(1), ..*one };
        has_times && next.index != 0 && *next == expected
    })
}

/// Returns the sizes of all files of a trace in pages, up to the last page that was accessed, since
/// no more is known.
///
/// # Errors
/// [`Error::Format`] for a trace that does not record files and pages, those of the reader and of
/// `progress`.
pub fn file_sizes(path: &Path, progress: &mut dyn FnMut(f64) -> Result<()>) -> Result<FilePages> {
    let mut files: HashMap<u64, u64> = HashMap::new();
    for_each(path, progress, |records, _| {
        for record in records {
            let pages = files.entry(record.file_key()).or_default();
            *pages = (*pages).max(record.index.saturating_add(1));
        }
        Ok(())
    })?;
    Ok(FilePages::Each(Arc::new(files)))
}

/// Runs every job over the trace, `threads` at a time (0: one per core), and calls `progress` with
/// the share of the trace read.
///
/// # Errors
/// Those of [`Simulator::new`], of [`file_sizes`] and of [`thread_pool`].
pub fn simulate(
    path: &Path,
    jobs: &[PrefetchJob],
    threads: usize,
    progress: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<Vec<PrefetchOutcome>> {
    let start = |job: &PrefetchJob| {
        let simulator = Simulator::new(job.policy, job.config.clone())?;
        Ok(Running { simulator, time: Duration::ZERO })
    };
    let mut running = jobs.iter().map(start).collect::<Result<Vec<_>>>()?;
    let pool = thread_pool(threads)?;
    let mut first_ns = None;
    for_each(path, progress, |records, has_times| {
        let first = *first_ns.get_or_insert(records.first().map_or(0, |record| record.time_ns));
        let accesses: Vec<Access> = calls(records, has_times)
            .map(|call| {
                let record = &call[0];
                Access {
                    file: record.file_key(),
                    index: record.index,
                    pages: call.len() as u64,
                    task: record.task,
                    time_ns: has_times.then(|| record.time_ns.saturating_sub(first)),
                    write: record.write,
                }
            })
            .collect();
        pool.install(|| running.par_iter_mut().try_for_each(|one| one.run(&accesses)))
    })?;
    let outcome = |one: &Running| PrefetchOutcome { stats: one.simulator.stats(), time: one.time };
    Ok(running.iter().map(outcome).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_pages_of_one_task_at_one_time_are_one_call() {
        let record = |index, time_ns, task| Record { index, time_ns, task, ..Record::default() };
        let records = [
            record(5, 1, 1),
            record(6, 1, 1),
            record(7, 1, 1),
            record(8, 2, 1),
            record(9, 2, 2),
            record(11, 2, 2),
            record(u64::MAX, 3, 2),
            record(0, 3, 2),
        ];
        let lengths = |has_times| calls(&records, has_times).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(true), [3, 1, 1, 1, 1, 1]);
        assert_eq!(lengths(false), [1; 8]);
    }
}
