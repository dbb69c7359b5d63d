// SPDX-License-Identifier: Apache-2.0
//! Watches the page cache of cgroups without a controller and without changing anything: what is
//! accessed and missed, and, by curves, what another size would do and how much is cold.
//!
//! It loads a sampler of its own, beside that of an agent, whose sampling and state it leaves
//! alone. The sampler ends with this process. Only the curve of the kernel's own eviction is
//! learnt.

mod cold;
mod recent;
mod report;
mod watched;
mod working_set;

pub use self::cold::Cold;
pub use self::report::{AROUND, CgroupReport, Counted, MULTIPLES, Point, Predicted, Report};

use self::recent::{Recent, WorkingSets};
use crate::bpf::sampler::Sampler;
use crate::bpf::sampler::load::{MAX_CGROUPS, SamplerSizes};
use crate::bpf::source::AccessSource;
use crate::cgroup::fs::CgroupFs;
use crate::cgroup::{self, Cgroup};
use crate::curves::{CurvesConfig, CurvesSettings, PAGE_BYTES};
use crate::error::Result;
use crate::node::kernel::host::Host;
use crate::node::kernel::sampling::Sampling;
use crate::node::kernel::tenant::found::Found;
use crate::node::kernel::tenant::memory::CachedFiles;
use crate::policies::stats::CgroupStats;
use crate::wire::{self, Counters, DEFAULT_POLICY};
use cachepilot_models::curve::geometric_size_grid;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Interval at which cgroups are searched.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// Room for cgroups that are created later, in addition to a quarter of those that exist; each
/// takes 1 KiB per CPU. Cgroups that are removed make room as well.
const SPARE_CGROUPS: usize = 16;
const RING_BYTES: u32 = 8 << 20;
/// Number of pages at which curves begin (256 KiB). They have four sizes per doubling up to the
/// memory of the machine.
const SMALLEST_PAGES: u64 = 64;
const SIZES_PER_DOUBLING: f64 = 4.0;
/// The least number of sampled accesses behind a curve. Behaviour that none of them showed may
/// still be that of 0.15% of accesses (the rule of three). With one policy to simulate, samples
/// arrive about four times as fast as in an agent.
const MIN_SAMPLES: u64 = 2000;

/// What to watch, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Cgroups, as paths below the mount with `*`, `?` and `[...]`; empty for all that have
    /// processes.
    pub patterns: Vec<String>,
    /// The time over which working sets are measured.
    pub window: Duration,
    /// The rise of the miss ratio, in percentage points from 0 to 100, up to which bytes count as
    /// cold.
    pub cold_points: f64,
}

/// A watched cgroup.
#[derive(Debug, Default)]
struct Watched {
    /// When watching it began. `looked` is when it was last reported.
    since: Duration,
    looked: Duration,
    /// The counts at the last report.
    before: Counters,
}

/// Watches cgroups.
pub struct CacheStat {
    fs: CgroupFs,
    options: Options,
    sampling: Sampling,
    working_sets: WorkingSets,
    found: Vec<Found>,
    watched: BTreeMap<u64, Watched>,
    missing: Vec<String>,
    /// Time since watching began. `looked` and `scanned` are its values at the last report and the
    /// last scan.
    now: Duration,
    looked: Duration,
    scanned: Duration,
    lost_events: u64,
}

impl CacheStat {
    /// Starts to watch on this machine.
    ///
    /// # Errors
    /// Returns [`crate::Error::NoCgroup2`], [`crate::Error::NoMatch`] and similar errors, and those
    /// of [`Sampler::open`].
    pub fn open(options: Options) -> Result<Self> {
        let fs = CgroupFs::new(cgroup::mount::mounted()?);
        let count = watched::find_some(&fs, &options.patterns)?.len();
        let room = count + count / 4 + SPARE_CGROUPS;
        let max_tenants = room.min(MAX_CGROUPS as usize) as u32;
        let sampler = Sampler::open(SamplerSizes { max_tenants, ring_bytes: RING_BYTES })?;
        let memory_bytes = Host::default().memory_bytes("MemTotal");
        Self::with_parts(fs, Box::new(sampler), memory_bytes, max_tenants, options)
    }

    /// Starts to watch a given hierarchy with a given source of accesses, on a machine with
    /// `memory_bytes`.
    ///
    /// # Errors
    /// The errors of [`Sampling::new`].
    fn with_parts(
        fs: CgroupFs,
        source: Box<dyn AccessSource>,
        memory_bytes: u64,
        max_tenants: u32,
        options: Options,
    ) -> Result<Self> {
        let missing = source.parts().iter().filter_map(|part| part.missing.clone()).collect();
        let working_sets = WorkingSets::new(options.window);
        let source = Box::new(Recent::new(source, working_sets.clone()));
        let mut stat = Self {
            fs,
            options,
            sampling: Sampling::new(source, curves_config(memory_bytes), max_tenants)?,
            working_sets,
            found: Vec::new(),
            watched: BTreeMap::new(),
            missing,
            now: Duration::ZERO,
            looked: Duration::ZERO,
            scanned: Duration::ZERO,
            lost_events: 0,
        };
        stat.scan();
        Ok(stat)
    }

    /// What the sampler cannot see on this kernel.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Takes the events of the `elapsed` time since the last call. Must be called about every 50
    /// ms.
    ///
    /// # Errors
    /// Returns an error if the kernel no longer returns events.
    pub fn tick(&mut self, elapsed: Duration) -> Result<()> {
        self.now += elapsed;
        self.working_sets.set_now(self.now);
        if self.now - self.scanned >= SCAN_INTERVAL {
            self.scan();
        }
        self.sampling.tick(elapsed)
    }

    fn scan(&mut self) {
        self.scanned = self.now;
        self.found = watched::find(&self.fs, &self.options.patterns);
        self.sampling.follow(&self.found);
        self.watched.retain(|&id, _| self.found.iter().any(|found| found.id == id));
        for found in &self.found {
            let (since, looked) = (self.now, self.now);
            let new = || Watched { since, looked, before: Counters::default() };
            self.watched.entry(found.id).or_insert_with(new);
        }
    }

    /// Reports the interval since the last report.
    ///
    /// # Errors
    /// As [`Self::tick`].
    pub fn look(&mut self) -> Result<Report> {
        self.sampling.begin_judging()?;
        let lost_events = self.sampling.loss().dropped_events_total;
        let found = std::mem::take(&mut self.found);
        let cgroups = found.iter().map(|found| self.look_at(found)).collect();
        self.found = found;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let interval = self.now - std::mem::replace(&mut self.looked, self.now);
        let before = std::mem::replace(&mut self.lost_events, lost_events);
        Ok(Report {
            time_us: time.as_micros() as u64,
            interval_s: interval.as_secs_f64(),
            watched_s: self.now.as_secs_f64(),
            window_s: self.options.window.as_secs_f64(),
            cold_points: self.options.cold_points,
            lost_events: lost_events.saturating_sub(before),
            cgroups,
        })
    }

    fn look_at(&mut self, found: &Found) -> CgroupReport {
        // The cgroup may have gone since the last scan.
        let cached = CachedFiles::read(&self.fs, &found.cgroup).ok();
        let mut told = wire::Tenant {
            cgroup_id: found.id,
            policy: DEFAULT_POLICY.into(),
            ..wire::Tenant::default()
        };
        let present_bytes = cached.map_or(0, |cached| cached.on_curves());
        self.sampling.tell_at(&mut told, present_bytes);
        let watched = self.watched.entry(found.id).or_default();
        let counted = told.counters.map(|now| {
            let seconds = (self.now - watched.looked).as_secs_f64();
            Counted::between(&std::mem::replace(&mut watched.before, now.clone()), &now, seconds)
        });
        watched.looked = self.now;
        let watched_s = (self.now - watched.since).as_secs_f64();
        let is_idle = watched.before.accesses_total == 0;
        let policy = self.policy(found);
        let distrust = if cached.is_none() {
            "memory.stat cannot be read".into()
        } else if counted.is_none() {
            "accesses are not counted: more cgroups than there was room for at the start".into()
        } else if policy != DEFAULT_POLICY {
            format!("{policy} decides here, the curve is of the kernel's own eviction")
        } else if is_idle {
            format!("no accesses in {watched_s:.0} s")
        } else {
            told.distrust
        };
        let rise = self.options.cold_points / 100.0;
        let predicted = told.curves.map(|curves| Predicted::of(&curves, present_bytes, rise));
        let pages = self.working_sets.pages(found.id);
        CgroupReport {
            cgroup: found.cgroup.clone(),
            id: found.id,
            policy,
            watched_s,
            counted,
            cached,
            working_set_bytes: pages.map(|pages| (pages * PAGE_BYTES as f64).round() as u64),
            predicted: predicted.filter(|_| cached.is_some()),
            trusted: told.trusted && distrust.is_empty(),
            distrust,
        }
    }

    fn policy(&self, found: &Found) -> String {
        let cgroup = Cgroup { path: self.fs.dir(&found.cgroup), id: found.id };
        let stats = CgroupStats::read(&cgroup);
        let policy = stats.as_ref().ok().and_then(CgroupStats::policy);
        policy.unwrap_or(DEFAULT_POLICY).to_owned()
    }
}

/// Curves of the kernel's own eviction alone, with sizes for small cgroups on large machines.
fn curves_config(memory_bytes: u64) -> CurvesConfig {
    let largest = (memory_bytes / PAGE_BYTES).max(SMALLEST_PAGES);
    let doublings = (largest as f64 / SMALLEST_PAGES as f64).log2();
    let points = (doublings * SIZES_PER_DOUBLING).ceil() as usize + 1;
    let settings = CurvesSettings::default();
    CurvesConfig {
        sizes_pages: geometric_size_grid(SMALLEST_PAGES, largest, points),
        policies: vec![settings.default_model.clone()],
        min_samples: MIN_SAMPLES,
        node_bytes: u64::MAX,
        ..settings.config(memory_bytes)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
