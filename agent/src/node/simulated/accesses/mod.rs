// SPDX-License-Identifier: Apache-2.0
//! What a tenant accesses: recorded traces here, synthetic sources in `synthetic`, one after the
//! other as `phases`.

mod phases;
mod synthetic;

pub(super) use phases::Phases;

use super::config::SourceConfig;
use crate::error::Result;
use cachepilot_models::hash::page_hash;
use cachepilot_models::trace::{self, Chunk, OpenOptions, TraceReader};
use std::path::PathBuf;
use synthetic::{Loop, Mix, Uniform, Zipf};

/// Accesses in order: page keys, and a task for each (0: unknown).
#[derive(Debug, Default)]
pub(super) struct Accesses {
    pub(super) keys: Vec<u64>,
    pub(super) tasks: Vec<u32>,
}

impl Accesses {
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.tasks.clear();
    }

    pub(super) fn push(&mut self, key: u64, task: u32) {
        self.keys.push(key);
        self.tasks.push(task);
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// An endless stream of accesses, which may consist of passes.
pub(super) trait AccessSource: Send {
    /// Appends the next accesses, `count` of them unless a pass ends earlier. Returns true if a
    /// pass ended; the next call starts again.
    fn fill(&mut self, count: usize, out: &mut Accesses) -> Result<bool>;
}

/// Opens the source that a configuration describes, with random numbers of its own.
///
/// # Errors
/// Returns the mistake in a trace's file.
pub(super) fn open(config: &SourceConfig, seed: u64) -> Result<Box<dyn AccessSource>> {
    Ok(match config {
        SourceConfig::Trace { path, column, offset } => {
            Box::new(Trace::open(path.clone(), column.clone(), *offset)?)
        }
        SourceConfig::Zipf { alpha, pages, offset } => {
            Box::new(Zipf::new(*alpha, *pages, *offset, seed)?)
        }
        SourceConfig::Uniform { pages, offset } => Box::new(Uniform::new(*pages, *offset, seed)),
        SourceConfig::Loop { pages, offset } => Box::new(Loop::new(*pages, *offset)),
        SourceConfig::Mix { share, first, second } => {
            let first = open(first, page_hash(seed))?;
            let second = open(second, page_hash(!seed))?;
            Box::new(Mix::new(*share, first, second, seed))
        }
    })
}

/// A recorded trace, which is started again when it ends.
struct Trace {
    path: PathBuf,
    column: Option<String>,
    offset: u64,
    reader: Box<dyn TraceReader>,
    chunk: Chunk,
    at: usize,
}

impl Trace {
    fn open(path: PathBuf, column: Option<String>, offset: u64) -> Result<Self> {
        let mut reader = reader(&path, column.as_deref())?;
        // The first chunk is read at once, so that a file that is not a trace is found now and not
        // during the simulation.
        let mut chunk = Chunk::default();
        reader.next_chunk(&mut chunk)?;
        Ok(Self { path, column, offset, reader, chunk, at: 0 })
    }
}

fn reader(path: &std::path::Path, column: Option<&str>) -> Result<Box<dyn TraceReader>> {
    Ok(trace::open(path, &OpenOptions { column, ..OpenOptions::default() })?)
}

impl AccessSource for Trace {
    fn fill(&mut self, count: usize, out: &mut Accesses) -> Result<bool> {
        let mut left = count;
        while left > 0 {
            let end = (self.at + left).min(self.chunk.keys.len());
            let taken = self.at..end;
            left -= taken.len();
            let offset = self.offset;
            out.keys.extend(self.chunk.keys[taken.clone()].iter().map(|k| k.wrapping_add(offset)));
            match self.chunk.tasks.get(taken) {
                Some(tasks) => out.tasks.extend(tasks),
                None => out.tasks.resize(out.keys.len(), 0),
            }
            self.at = end;
            if self.at < self.chunk.keys.len() {
                break;
            }
            self.at = 0;
            self.reader.next_chunk(&mut self.chunk)?;
            if self.chunk.keys.is_empty() {
                self.reader = reader(&self.path, self.column.as_deref())?;
                self.reader.next_chunk(&mut self.chunk)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_trace_is_read_to_its_end_and_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.u64");
        let keys: Vec<u64> = (0..100_000).collect();
        fs::write(&path, keys.iter().flat_map(|k| k.to_le_bytes()).collect::<Vec<_>>()).unwrap();
        let config = SourceConfig::Trace { path: path.clone(), column: None, offset: 7 };
        let mut source = open(&config, 0).unwrap();
        let mut out = Accesses::default();
        assert!(!source.fill(99_999, &mut out).unwrap());
        assert!(source.fill(50, &mut out).unwrap(), "the pass ends");
        assert_eq!(out.len(), 100_000);
        assert!(!source.fill(3, &mut out).unwrap());
        assert_eq!(out.tasks.len(), out.keys.len());
        let expected: Vec<u64> = keys.iter().chain(&keys[..3]).map(|k| k + 7).collect();
        assert_eq!(out.keys, expected);
    }

    #[test]
    fn a_file_that_is_no_trace_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.u64");
        fs::write(&path, [1, 2, 3]).unwrap();
        let config = SourceConfig::Trace { path, column: None, offset: 0 };
        let message = open(&config, 0).err().unwrap().to_string();
        assert!(message.contains("a.u64"), "{message}");
    }
}
