// SPDX-License-Identifier: Apache-2.0
//! Sampling of tenants: which cgroups are tracked, and the hash threshold of each. A page is
//! sampled if its hash is below the threshold (SHARDS).

mod learning;
mod lost;
mod room;
mod tracked;
mod waiting;

use self::learning::{Having, Learning};
use self::lost::Lost;
use self::room::Room;
use crate::bpf::layout::{Counts, Losses};
use crate::bpf::source::AccessSource;
use crate::curves::{CurvesConfig, PAGE_BYTES, TenantCurves};
use crate::error::Result;
use crate::node::kernel::tenant::add_counts;
use crate::node::kernel::tenant::memory::Usage;
use crate::wire;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// The length of a round. Once per round, counts are read, curves learn from the events that wait,
/// and thresholds follow the budget of events. Processing each event when it arrives would load the
/// simulated caches into the processor's cache every time.
const ROUND: Duration = Duration::from_secs(1);
/// An observation makes a round, unless the last round ended less than this before. A shorter time
/// says little about rates.
const SHORTEST_ROUND: Duration = Duration::from_millis(500);
/// The time after an observation in which no other round begins, as the next observation makes it.
/// Making two rounds instead would double the cost.
const LOOK_PATIENCE: Duration = Duration::from_millis(1250);

/// A threshold below which there is no page.
const NO_PAGES: u64 = 1;

struct Sampled {
    slot: u32,
    members: BTreeSet<u64>,
    /// Number of the tenant's cgroups that could not be tracked: their accesses are neither counted
    /// nor learnt from.
    untracked: usize,
    /// The threshold that the kernel uses for all members.
    threshold: u64,
    learning: Learning,
    lost: Lost,
    /// The counts of the last round; `None` if they could not be read.
    counts: Option<Counts>,
}

/// All tenants that are sampled.
pub struct Sampling {
    source: Box<dyn AccessSource>,
    tenants: BTreeMap<u64, Sampled>,
    owners: HashMap<u64, u64>,
    free: BTreeSet<u32>,
    config: CurvesConfig,
    room: Room,
    /// The threshold with which tenants begin.
    first_threshold: u64,
    since_round: Duration,
    /// The time from the last round to the next one.
    due: Duration,
    untracked: BTreeSet<u64>,
    untracked_total: u64,
    /// Losses of all tenants together: now, and when each tenant's losses were last read.
    losses: Losses,
    told_losses: Losses,
}

impl Sampling {
    /// Sampling of at most `max_tenants` tenants.
    ///
    /// # Errors
    /// Returns an error if the configuration of curves is invalid.
    pub fn new(
        source: Box<dyn AccessSource>,
        config: CurvesConfig,
        max_tenants: u32,
    ) -> Result<Self> {
        let first = TenantCurves::new(&config)?;
        Ok(Self {
            source,
            tenants: BTreeMap::new(),
            owners: HashMap::new(),
            // The lowest slot is used first: the counts of neighbouring slots are in one map.
            free: (0..max_tenants).collect(),
            first_threshold: first.threshold(),
            room: Room::new(&config, first.bytes()),
            config,
            since_round: Duration::ZERO,
            due: ROUND,
            untracked: BTreeSet::new(),
            untracked_total: 0,
            losses: Losses::default(),
            told_losses: Losses::default(),
        })
    }

    /// Names of the parts of the sampler that work on this host.
    #[must_use]
    pub fn seen(&self) -> Vec<&'static str> {
        let parts = self.source.parts().iter();
        parts.filter(|part| part.missing.is_none()).map(|part| part.name).collect()
    }

    /// Sets the named tasks of a tenant; `None` if no tasks are named.
    pub fn set_tasks(&mut self, id: u64, tasks: Option<Vec<u32>>) {
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.learning.set_tasks(tasks);
        }
    }

    /// Takes the events that have arrived. Once a second, lets curves learn from them and adapts
    /// the thresholds. If a tenant has more events than are allowed per second, its threshold is
    /// lowered at once.
    ///
    /// # Errors
    /// Returns an error if the kernel no longer returns events or counts.
    pub fn tick(&mut self, elapsed: Duration) -> Result<()> {
        self.take_events()?;
        self.since_round += elapsed;
        if self.since_round >= self.due {
            self.due = ROUND;
            return self.round();
        }
        let elapsed = self.since_round.max(SHORTEST_ROUND);
        for tenant in self.tenants.values_mut() {
            if tenant.learning.is_flooded(&self.config) {
                tenant.thin(self.source.as_ref(), &self.config, elapsed);
            }
        }
        Ok(())
    }

    fn round(&mut self) -> Result<()> {
        self.learn()?;
        let elapsed = std::mem::take(&mut self.since_round);
        for tenant in self.tenants.values_mut() {
            tenant.advance(self.source.as_ref(), elapsed);
        }
        // By now, new curves have freed the memory that their pages do not need.
        for id in self.room.enforce(&mut self.tenants) {
            if let Some(tenant) = self.tenants.get_mut(&id) {
                tenant.set_threshold(self.source.as_ref(), NO_PAGES);
            }
        }
        Ok(())
    }

    /// Reads counts and losses, and lets the curves learn from the events that arrived.
    fn learn(&mut self) -> Result<()> {
        // Missing counts are reported for each tenant when it is observed.
        let mut counts = self.source.counts().unwrap_or_default();
        self.losses = self.source.losses()?;
        self.tenants.values_mut().for_each(|one| one.counts = counts.remove(&one.slot));
        self.room.share(&mut self.tenants, &self.config);
        for tenant in self.tenants.values_mut() {
            if let Some(counts) = &tenant.counts {
                tenant.learning.feed(&self.config, counts.accesses);
            }
            // A tenant learns from the events that it has. One that may not learn has no events to
            // come.
            let other = tenant.learning.other_threshold(tenant.threshold, self.first_threshold);
            if let Some(threshold) = other {
                tenant.set_threshold(self.source.as_ref(), threshold);
            }
        }
        Ok(())
    }

    fn take_events(&mut self) -> Result<()> {
        let Self { source, tenants, owners, .. } = self;
        source.drain(&mut |events| {
            for run in events.chunk_by(|one, next| one.record.cgroup == next.record.cgroup) {
                let owner = owners.get(&run[0].record.cgroup);
                let Some(tenant) = owner.and_then(|id| tenants.get_mut(id)) else { continue };
                run.iter().for_each(|event| tenant.learning.take(event));
            }
        })
    }

    /// Begins a judgement of all curves: brings the curves up to date with the counts, and reads
    /// how many events each tenant lost.
    ///
    /// # Errors
    /// As [`Self::tick`].
    pub fn begin_judging(&mut self) -> Result<()> {
        self.take_events()?;
        match self.since_round >= SHORTEST_ROUND {
            true => self.round()?,
            false => self.learn()?,
        }
        self.due = LOOK_PATIENCE;
        self.ask_whose_losses();
        Ok(())
    }

    /// If anything was lost since the last time, reads the losses of each tenant.
    fn ask_whose_losses(&mut self) {
        // The number of events is unknown for calls that were not followed, so they are not
        // compared.
        let of_events = |losses: Losses| (losses.dropped_events, losses.unsampled_pages);
        let before = std::mem::replace(&mut self.told_losses, self.losses);
        if of_events(before) == of_events(self.losses) {
            return;
        }
        for tenant in self.tenants.values_mut() {
            for &member in &tenant.members {
                tenant.lost.look(self.source.as_ref(), member);
            }
        }
    }

    /// Adds the counts of a tenant and what was learnt about it. The size of its page cache follows
    /// from its limit and `usage`.
    pub fn tell(&mut self, shown: &mut wire::Tenant, usage: &Usage) {
        // Curves end at the node's memory; a limit above that is the same as none.
        let largest = self.config.sizes_pages.last().copied().unwrap_or(0) * PAGE_BYTES;
        let limit_bytes = match shown.limit_bytes {
            0 => largest,
            limit => limit.min(largest),
        };
        self.tell_at(shown, limit_bytes.saturating_sub(usage.beside_curves()));
    }

    /// As [`Self::tell`], for a tenant whose page cache has `cache_bytes`.
    pub fn tell_at(&mut self, shown: &mut wire::Tenant, cache_bytes: u64) {
        let Some(tenant) = self.tenants.get_mut(&shown.cgroup_id) else {
            shown.distrust = "not sampled: there are more tenants than max_tenants".into();
            return;
        };
        let Some(counts) = &tenant.counts else {
            shown.distrust = "its accesses could not be read".into();
            return;
        };
        add_counts(shown, counts);
        let having = Having { policy: &shown.policy, cache_bytes };
        let learnt = tenant.learning.judge(having, counts, tenant.lost.take());
        shown.curves_generation = learnt.curves.as_ref().map_or(0, |curves| curves.generation);
        (shown.curves, shown.trusted) = (learnt.curves, learnt.trusted);
        shown.counterfactuals = learnt.counterfactuals;
        (shown.distrust, shown.phase) = (learnt.distrust, learnt.phase);
        if tenant.untracked > 0 {
            let (untracked, all) = (tenant.untracked, tenant.untracked + tenant.members.len());
            shown.trusted = false;
            shown.distrust =
                format!("{untracked} of its {all} cgroups are not sampled: there are too many");
        }
    }

    /// Accesses of each tenant so far. A tenant whose counts cannot be read is left out.
    #[must_use]
    pub fn accesses(&self) -> BTreeMap<u64, u64> {
        let counts = self.source.counts().unwrap_or_default();
        let of = |(&id, tenant): (&u64, &Sampled)| Some((id, counts.get(&tenant.slot)?.accesses));
        self.tenants.iter().filter_map(of).collect()
    }

    /// Memory of the curves of all tenants, bytes.
    #[must_use]
    pub fn curves_bytes(&self) -> u64 {
        self.tenants.values().map(|tenant| tenant.learning.bytes()).sum()
    }

    /// What could not be observed so far.
    #[must_use]
    pub fn loss(&self) -> wire::Loss {
        wire::Loss {
            dropped_events_total: self.losses.dropped_events + self.losses.unsampled_pages,
            untracked_tenants_total: self.untracked_total + self.room.refused_total,
            failed_reads_total: 0,
        }
    }
}

impl Sampled {
    /// Drops the events that a lower threshold would have excluded, and passes that threshold to
    /// the kernel.
    fn thin(&mut self, source: &dyn AccessSource, config: &CurvesConfig, elapsed: Duration) {
        let threshold = self.learning.thin(config, elapsed);
        self.set_threshold(source, threshold);
    }

    /// Whether the tenant has no curves, and accesses from which they can be learnt.
    fn wants_to_begin(&self) -> bool {
        let accesses_total = self.counts.as_ref().map_or(0, |counts| counts.accesses);
        self.learning.wants_to_begin(accesses_total)
    }

    /// Advances the curves by `elapsed`, and passes the threshold that they want to the kernel.
    fn advance(&mut self, source: &dyn AccessSource, elapsed: Duration) {
        if let Some(threshold) = self.learning.advance(elapsed) {
            self.set_threshold(source, threshold);
        }
    }

    fn set_threshold(&mut self, source: &dyn AccessSource, threshold: u64) {
        if threshold == self.threshold {
            return;
        }
        let track = |&member| source.track(member, self.slot, threshold);
        let told = self.members.iter().map(track).filter(Result::is_ok).count();
        // The threshold rises only if all members use the new one, so that every page below it is
        // sampled. It falls in any case, since some members may use the lower one.
        if threshold < self.threshold || told == self.members.len() {
            self.threshold = threshold;
            self.learning.set_kernel_threshold(threshold);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
