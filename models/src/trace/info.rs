// SPDX-License-Identifier: Apache-2.0
//! Exact statistics of a trace, counted in one pass.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::path::Path;

use serde::Serialize;

use super::convert::Progress;
use super::format::{Encoding, Format};
use super::{Chunk, OpenOptions, RecordReader, TraceReader, open};
use crate::error::Result;
use crate::hash::page_hash;

/// Exact counts of a trace. A field that the format does not have is `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceInfo {
    /// Format of the file.
    pub format: Format,
    /// Requests in the trace.
    pub requests: u64,
    /// Number of distinct pages: the footprint.
    pub distinct_pages: u64,
    /// Share of the distinct pages that are requested exactly once.
    pub one_hit_ratio: f64,
    /// Latest minus earliest time, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Number of requests that are writes.
    pub writes: Option<u64>,
    /// Number of distinct tasks.
    pub tasks: Option<u64>,
}

/// Counts the requests of `path`. The memory grows with the distinct pages and tasks, not with the
/// requests.
///
/// # Errors
/// Those of [`open`] and [`TraceReader::next_chunk`].
pub fn info(path: &Path, options: &OpenOptions) -> Result<TraceInfo> {
    info_with_progress(path, options, &mut |_| Ok(()))
}

/// Like [`info`], and reports the share done.
///
/// # Errors
/// As [`info`], and whatever `progress` returns.
pub fn info_with_progress(
    path: &Path,
    options: &OpenOptions,
    progress: Progress,
) -> Result<TraceInfo> {
    let format = options.detect(path)?;
    let mut summary = Summary::default();
    if format.encoding == Encoding::Cptrace {
        options.check(format.encoding)?;
        summary.add_records(&mut RecordReader::open_as(path, format.compression)?, progress)?;
    } else {
        summary.add_chunks(open(path, options)?.as_mut(), progress)?;
    }
    Ok(summary.finish(format))
}

/// Returns the number of distinct pages in `path`.
///
/// # Errors
/// As [`info`].
pub fn footprint(path: &Path, options: &OpenOptions) -> Result<u64> {
    Ok(info(path, options)?.distinct_pages)
}

/// [`page_hash`] as a [`Hasher`] of one `u64`.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = page_hash(self.0 ^ key);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Default)]
struct Summary {
    requests: u64,
    /// Maps each page to whether it was requested again.
    pages: HashMap<u64, bool, BuildHasherDefault<KeyHasher>>,
    tasks: HashSet<u32>,
    has_tasks: bool,
    span_ns: Option<(u64, u64)>,
    writes: Option<u64>,
}

impl Summary {
    fn add_chunks(&mut self, reader: &mut dyn TraceReader, progress: Progress) -> Result<()> {
        let mut chunk = Chunk::default();
        loop {
            reader.next_chunk(&mut chunk)?;
            if chunk.keys.is_empty() {
                return Ok(());
            }
            chunk.keys.iter().for_each(|&key| self.add_page(key));
            chunk.times_ns.iter().for_each(|&time_ns| self.add_time(time_ns));
            self.has_tasks |= !chunk.tasks.is_empty();
            self.tasks.extend(&chunk.tasks);
            progress(reader.progress())?;
        }
    }

    fn add_records(&mut self, reader: &mut RecordReader, progress: Progress) -> Result<()> {
        let header = reader.header();
        self.has_tasks = header.has_tasks;
        self.writes = header.has_directions.then_some(0);
        let mut records = Vec::new();
        loop {
            reader.next_records(&mut records)?;
            if records.is_empty() {
                return Ok(());
            }
            for record in &records {
                self.add_page(header.page_key(record));
                if header.has_times {
                    self.add_time(record.time_ns);
                }
                if header.has_tasks {
                    self.tasks.insert(record.task);
                }
                self.writes = self.writes.map(|writes| writes + u64::from(record.write));
            }
            progress(reader.progress())?;
        }
    }

    #[inline]
    fn add_page(&mut self, key: u64) {
        self.requests += 1;
        self.pages.entry(key).and_modify(|again| *again = true).or_insert(false);
    }

    #[inline]
    fn add_time(&mut self, time_ns: u64) {
        let (from, to) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((from.min(time_ns), to.max(time_ns)));
    }

    fn finish(self, format: Format) -> TraceInfo {
        let once = self.pages.values().filter(|again| !**again).count();
        TraceInfo {
            format,
            requests: self.requests,
            distinct_pages: self.pages.len() as u64,
            one_hit_ratio: once as f64 / self.pages.len().max(1) as f64,
            duration_ns: self.span_ns.map(|(from, to)| to - from),
            writes: self.writes,
            tasks: self.has_tasks.then_some(self.tasks.len() as u64),
        }
    }
}
