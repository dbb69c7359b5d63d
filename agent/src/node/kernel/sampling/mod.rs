// SPDX-License-Identifier: Apache-2.0
//! Sampling of tenants: who is tracked, and below which hash pages are sampled.

mod learning;
mod lost;
mod room;
mod waiting;

use self::learning::{Having, Learning};
use self::lost::Lost;
use self::room::Room;
use crate::bpf::sampler_layout::{Counts, Losses};
use crate::bpf::source::AccessSource;
use crate::curves::{CurvesConfig, PAGE_BYTES, TenantCurves};
use crate::error::Result;
use crate::node::kernel::tenant::add_counts;
use crate::node::kernel::tenant::found::Found;
use crate::node::kernel::tenant::memory::Usage;
use crate::wire;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// So often counts are read, curves learn from the events that wait, and thresholds follow the budget
/// of events: a round. One by one, each event would cost what the simulated caches take to come into
/// the processor's.
const ROUND: Duration = Duration::from_secs(1);
/// A look makes a round, unless the last is so short ago that it says little of rates.
const SHORTEST_ROUND: Duration = Duration::from_millis(500);
/// After a look the next one is waited for this long: two rounds in its place would cost as much again.
const LOOK_PATIENCE: Duration = Duration::from_millis(1250);

/// A threshold below which no page is.
const NO_PAGES: u64 = 1;

struct Sampled {
    slot: u32,
    members: BTreeSet<u64>,
    /// Cgroups of it that could not be tracked: what they do is neither counted nor learnt from.
    untracked: usize,
    /// What the kernel uses for all members.
    threshold: u64,
    learning: Learning,
    lost: Lost,
    /// What was counted when curves were last judged; `None` when it could not be read.
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
    /// What tenants begin with.
    first_threshold: u64,
    since_round: Duration,
    /// When the next round is due, since the last.
    due: Duration,
    untracked: BTreeSet<u64>,
    untracked_total: u64,
    /// Of all tenants together, now and when it was last asked whose they were.
    losses: Losses,
    told_losses: Losses,
}

impl Sampling {
    /// Sampling of at most `max_tenants` tenants.
    ///
    /// # Errors
    /// What is wrong with the configuration of curves.
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
            // The lowest first: the counts of neighbours are in one map.
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

    /// Names of what is seen here.
    #[must_use]
    pub fn seen(&self) -> Vec<&'static str> {
        let parts = self.source.parts().iter();
        parts.filter(|part| part.missing.is_none()).map(|part| part.name).collect()
    }

    /// Takes tenants as they are now: new ones are tracked, those that are gone make room.
    pub fn follow(&mut self, found: &[Found]) {
        let ids: BTreeSet<u64> = found.iter().map(|tenant| tenant.id).collect();
        let gone: Vec<u64> = self.tenants.keys().filter(|id| !ids.contains(id)).copied().collect();
        for id in gone {
            self.drop_tenant(id);
        }
        self.untracked.retain(|id| ids.contains(id));
        for tenant in found {
            if !self.tenants.contains_key(&tenant.id) && !self.add_tenant(tenant.id) {
                continue;
            }
            self.set_members(tenant);
        }
    }

    fn add_tenant(&mut self, id: u64) -> bool {
        let slot = self.free.pop_first().filter(|&slot| self.source.clear(slot).is_ok());
        let Some(slot) = slot else {
            self.miss(id);
            return false;
        };
        self.untracked.remove(&id);
        let sampled = Sampled {
            slot,
            members: BTreeSet::new(),
            untracked: 0,
            threshold: self.first_threshold,
            learning: Learning::default(),
            lost: Lost::default(),
            counts: None,
        };
        self.tenants.insert(id, sampled);
        true
    }

    fn miss(&mut self, id: u64) {
        if self.untracked.insert(id) {
            self.untracked_total += 1;
        }
    }

    fn drop_tenant(&mut self, id: u64) {
        let Some(tenant) = self.tenants.remove(&id) else { return };
        for member in tenant.members {
            // It may have become a tenant of its own, or of another one.
            if self.owners.get(&member) == Some(&id) {
                self.source.forget(member);
                self.owners.remove(&member);
            }
        }
        // What stays of it is cleared before the slot is given to another.
        let _ = self.source.clear(tenant.slot);
        self.free.insert(tenant.slot);
    }

    fn set_members(&mut self, found: &Found) {
        let Some(tenant) = self.tenants.get_mut(&found.id) else { return };
        let now: BTreeSet<u64> = found.members.iter().copied().collect();
        for &gone in tenant.members.difference(&now) {
            tenant.lost.leave(self.source.as_ref(), gone);
            if self.owners.get(&gone) == Some(&found.id) {
                self.source.forget(gone);
                self.owners.remove(&gone);
            }
        }
        let mut tracked: BTreeSet<u64> = tenant.members.intersection(&now).copied().collect();
        for &new in now.difference(&tenant.members) {
            if self.source.track(new, tenant.slot, tenant.threshold).is_ok() {
                tenant.lost.join(self.source.as_ref(), new);
                self.owners.insert(new, found.id);
                tracked.insert(new);
            }
        }
        tenant.members = tracked;
        tenant.untracked = now.len() - tenant.members.len();
        match tenant.untracked {
            0 => _ = self.untracked.remove(&found.id),
            _ => self.miss(found.id),
        }
    }

    /// A tenant has these named tasks now; `None` when none are named.
    pub fn set_tasks(&mut self, id: u64, tasks: Option<Vec<u32>>) {
        if let Some(tenant) = self.tenants.get_mut(&id) {
            tenant.learning.set_tasks(tasks);
        }
    }

    /// Takes the events that have come. Once a second it learns from them and adapts the thresholds;
    /// of a tenant that has more events than a second may have, the threshold is lowered at once.
    ///
    /// # Errors
    /// When the kernel does not give events or counts any more.
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
        // Curves that begin have given back by now what is too much for their pages.
        for id in self.room.enforce(&mut self.tenants) {
            if let Some(tenant) = self.tenants.get_mut(&id) {
                tenant.set_threshold(self.source.as_ref(), NO_PAGES);
            }
        }
        Ok(())
    }

    /// Reads what is counted and lost, and lets the curves learn what has come.
    fn learn(&mut self) -> Result<()> {
        // What cannot be read is told of each tenant when it is shown.
        let mut counts = self.source.counts().unwrap_or_default();
        self.losses = self.source.losses()?;
        self.tenants.values_mut().for_each(|one| one.counts = counts.remove(&one.slot));
        self.room.share(&mut self.tenants, &self.config);
        for tenant in self.tenants.values_mut() {
            if let Some(counts) = &tenant.counts {
                tenant.learning.feed(&self.config, counts.accesses);
            }
            // What it has is learnt from; a tenant that may not learn has no events to come.
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

    /// Begins a judgement of all curves: they have learnt all that is counted, and it is known how
    /// many events of each tenant were lost.
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

    /// Where anything was lost since the last time, tells each tenant what it lost.
    fn ask_whose_losses(&mut self) {
        // Of calls that were not followed it is not known how many events they would have been.
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

    /// Adds what was counted and learnt of a tenant, whose limit tells the size of its page cache.
    pub fn tell(&mut self, shown: &mut wire::Tenant, usage: &Usage) {
        // Curves end with the memory of the node, which is as good as no limit.
        let largest = self.config.sizes_pages.last().copied().unwrap_or(0) * PAGE_BYTES;
        let limit_bytes = match shown.limit_bytes {
            0 => largest,
            limit => limit.min(largest),
        };
        self.tell_at(shown, limit_bytes.saturating_sub(usage.beside_curves()));
    }

    /// The same of a tenant whose page cache has `cache_bytes`.
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

    /// Accesses of each tenant so far, of those whose accesses are counted.
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

    /// What could not be seen so far.
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
    /// Leaves out events that a lower threshold would have left out, and gives that to the kernel.
    fn thin(&mut self, source: &dyn AccessSource, config: &CurvesConfig, elapsed: Duration) {
        let threshold = self.learning.thin(config, elapsed);
        self.set_threshold(source, threshold);
    }

    /// Whether it has no curves, and may.
    fn wants_to_begin(&self) -> bool {
        let accesses_total = self.counts.as_ref().map_or(0, |counts| counts.accesses);
        self.learning.wants_to_begin(accesses_total)
    }

    /// Lets time pass for the curves, and gives the kernel the threshold that they want.
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
        // Higher only when all pages below it are sampled; lower as soon as some are not.
        if threshold < self.threshold || told == self.members.len() {
            self.threshold = threshold;
            self.learning.set_kernel_threshold(threshold);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
