// SPDX-License-Identifier: Apache-2.0
//! Records the page cache accesses of a cgroup as a trace (`docs/reference/trace_format.md`).

use crate::bpf::event::EventKind;
use crate::bpf::layout::{Counts, Losses};
use crate::bpf::sampler::Sampler;
use crate::bpf::sampler::load::SamplerSizes;
use crate::bpf::source::AccessSource;
use crate::bpf::watch::Watch;
use crate::cgroup::{Cgroup, tree};
use crate::error::{Error, Result};
use cachepilot_models::hash::threshold;
use cachepilot_models::trace::{Header, Record, RecordWriter};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const MIB: u32 = 1 << 20;
const MAX_RING_MIB: u32 = 1024;
/// The only slot of the sampler: a recording has one tenant.
const SLOT: u32 = 0;

/// What counts and samples the accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// The sampler's BPF programs. They work on any kernel, and beside a running agent.
    #[default]
    Programs,
    /// The patched kernel itself, which costs less. Only one process at a time can use it.
    Kernel,
}

/// A recording that is under way.
pub struct Recorder {
    sampler: Box<dyn AccessSource>,
    path: PathBuf,
    threshold: u64,
    tracked: Vec<u64>,
    records: Vec<Record>,
    elsewhere: u64,
    removals: u64,
}

/// The totals of a finished recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Accesses in the trace.
    pub records: u64,
    /// Everything counted during the recording, whether it is in the trace or not.
    pub counts: Counts,
    /// Accesses in the trace whose page is charged to another cgroup.
    pub elsewhere: u64,
    /// Pages of the sample that were truncated, removed, or dropped on request.
    pub removals: u64,
    /// Events that are missing in the trace.
    pub losses: Losses,
    /// Messages about what the sampler cannot see on this kernel.
    pub missing: Vec<String>,
}

impl Recorder {
    /// Starts to record `cgroup` and the cgroups below it. `rate` is the share of pages that is
    /// sampled, from above 0 to 1; every access to a sampled page is recorded. `ring_mib` is the
    /// size of the ring buffer that stores events between two calls of [`Self::step`].
    ///
    /// # Errors
    /// Returns [`Error::Setting`] for a value out of range, and [`Error::Sampler`] or a similar
    /// error if this machine cannot record.
    pub fn start(cgroup: &Path, counting: Counting, rate: f64, ring_mib: u32) -> Result<Self> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(refused("rate", rate, "allowed: above 0, up to 1"));
        }
        if !ring_mib.is_power_of_two() || ring_mib > MAX_RING_MIB {
            return Err(refused("ring_mib", ring_mib, "allowed: a power of two, up to 1024"));
        }
        let path = Cgroup::open(cgroup)?.path;
        let sizes = SamplerSizes { max_tenants: 1, ring_bytes: ring_mib * MIB };
        let sampler: Box<dyn AccessSource> = match counting {
            Counting::Programs => Box::new(Sampler::open(sizes)?),
            Counting::Kernel => Box::new(Watch::open_alone(sizes)?),
        };
        let mut recorder = Self {
            sampler,
            path,
            threshold: threshold(rate),
            tracked: Vec::new(),
            records: Vec::new(),
            elsewhere: 0,
            removals: 0,
        };
        recorder.follow()?;
        Ok(recorder)
    }

    /// Takes the events that have arrived, and begins to track cgroups created since the last call.
    ///
    /// # Errors
    /// Returns the kernel's error, or an error of `writer`.
    pub fn step(&mut self, writer: &mut RecordWriter) -> Result<()> {
        self.follow()?;
        self.records.clear();
        let Self { sampler, records, elsewhere, removals, .. } = self;
        sampler.drain(&mut |events| {
            for event in events {
                match event.kind {
                    EventKind::Access => {}
                    EventKind::AccessElsewhere => *elsewhere += 1,
                    EventKind::Removal => {
                        *removals += 1;
                        continue;
                    }
                }
                records.push(event.record);
            }
        })?;
        Ok(writer.write(&self.records)?)
    }

    /// Writes the remaining events and completes the file of `writer`.
    ///
    /// # Errors
    /// Returns the error of the kernel or of the file system. A trace without any access is
    /// refused.
    pub fn finish(mut self, mut writer: RecordWriter) -> Result<Recorded> {
        self.tracked.iter().for_each(|&id| self.sampler.forget(id));
        self.step(&mut writer)?;
        let missing = self.sampler.parts().iter().filter_map(|p| p.missing.clone()).collect();
        let (counts, losses) =
            (self.sampler.counts()?.remove(&SLOT).unwrap_or_default(), self.sampler.losses()?);
        let (elsewhere, removals) = (self.elsewhere, self.removals);
        Ok(Recorded { records: writer.finish()?, counts, elsewhere, removals, losses, missing })
    }

    /// Tracks the cgroup and all cgroups below it that exist now.
    fn follow(&mut self) -> Result<()> {
        // A cgroup that vanishes in the meantime has nothing more to record.
        let itself = fs::metadata(&self.path).map(|meta| meta.ino());
        let below = tree::below(&self.path).filter_map(|dir| Some(dir.ok()?.id));
        for id in itself.into_iter().chain(below) {
            if !self.tracked.contains(&id) {
                self.sampler.track(id, SLOT, self.threshold)?;
                self.tracked.push(id);
            }
        }
        Ok(())
    }
}

/// Creates the file of a recording.
///
/// # Errors
/// Returns an error if the suffix is wrong or the folder cannot be written.
pub fn create(out: &Path) -> Result<RecordWriter> {
    Ok(RecordWriter::create(out, Header::FULL)?)
}

fn refused(key: &str, value: impl std::fmt::Display, message: &str) -> Error {
    Error::Setting { text: format!("{key}={value}"), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_before_anything_is_loaded() {
        let refused = |rate, mib| {
            Recorder::start(Path::new("/nowhere"), Counting::Programs, rate, mib).err().unwrap()
        };
        for rate in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(refused(rate, 16).to_string().contains("rate="), "{rate}");
        }
        for mib in [0, 3, 2048] {
            assert!(refused(1.0, mib).to_string().contains("ring_mib="), "{mib}");
        }
        assert!(refused(1.0, 16).to_string().starts_with("/nowhere: "));
    }
}
