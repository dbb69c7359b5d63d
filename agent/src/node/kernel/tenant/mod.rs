// SPDX-License-Identifier: Apache-2.0
//! One tenant (a managed cgroup): its limit, its policy, its state as reported, and the actions on
//! it.

pub mod conditions;
pub mod found;
pub mod growth;
pub mod memory;
pub(super) mod tasks;

use crate::bpf::layout::Counts;
use crate::cgroup::Cgroup;
use crate::cgroup::fs::CgroupFs;
use crate::error::{Error, Result};
use crate::node::kernel::adoption::ledger::Initial;
use crate::node::kernel::limits::{Limit, Steering, Verdict};
use crate::node::kernel::policy::readahead::ReadaheadTotals;
use crate::node::kernel::policy::{Deciding, PolicyControl};
use crate::node::kernel::tenant::conditions::Conditions;
use crate::node::kernel::tenant::found::Found;
use crate::node::kernel::tenant::growth::Growth;
use crate::node::kernel::tenant::memory::Usage;
use crate::policies::kind::Kind;
use crate::policies::stats::CgroupStats;
use crate::wire;
use crate::wire::DEFAULT_POLICY;
use crate::wire::result::Outcome;
use std::io;

/// A tenant.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Its path below the mount.
    pub cgroup: String,
    /// Its id.
    pub id: u64,
    /// Its limit.
    pub limit: Limit,
    /// Its conditions, and since when each holds.
    pub conditions: Conditions,
    /// Ids of its named tasks, as last passed on; `None` if no tasks are named for it.
    pub tasks: Option<Vec<u32>>,
    /// The growth of its memory that cannot be reclaimed.
    pub growth: Growth,
    policy: String,
    own_policy: String,
    policy_remark: String,
    readahead: ReadaheadTotals,
}

impl Tenant {
    /// Reads the present state of a tenant.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn read(
        fs: &CgroupFs,
        policies: Option<&dyn PolicyControl>,
        found: &Found,
    ) -> Result<Self> {
        let limit = Limit::read(fs, &found.cgroup, found.id)
            .map_err(crate::Error::io(&fs.dir(&found.cgroup)))?;
        let (cgroup, id) = (found.cgroup.clone(), found.id);
        let mut tenant = Self {
            cgroup,
            id,
            limit,
            conditions: Conditions::default(),
            tasks: None,
            growth: Growth::default(),
            policy: DEFAULT_POLICY.into(),
            own_policy: DEFAULT_POLICY.into(),
            policy_remark: String::new(),
            readahead: ReadaheadTotals::default(),
        };
        if let Some(policies) = policies {
            tenant.take_policy(policies.deciding(&tenant.as_cgroup(fs))?);
        }
        Ok(tenant)
    }

    fn take_policy(&mut self, deciding: Deciding) {
        (self.policy, self.own_policy) = (deciding.name, deciding.own);
    }

    pub(in crate::node::kernel) fn as_cgroup(&self, fs: &CgroupFs) -> Cgroup {
        Cgroup { path: fs.dir(&self.cgroup), id: self.id }
    }

    /// The policy that decides, as last observed.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The tenant's own policy, as last observed; `default` if it has none, in which case that of a
    /// cgroup above may decide.
    #[must_use]
    pub fn own_policy(&self) -> &str {
        &self.own_policy
    }

    /// The memory that the tenant uses.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn usage(&self, fs: &CgroupFs, margin: u64, swap_free: u64) -> io::Result<Usage> {
        Usage::read(fs, &self.cgroup, margin, swap_free)
    }

    /// The tenant's own limit and policy, for the ledger before the first change. `root` is the id
    /// of the cgroup at the mount point.
    #[must_use]
    pub fn initial(&self, root: u64) -> Initial {
        let (high_bytes, policy) = (self.limit.bytes(), self.own_policy.clone());
        Initial { cgroup: self.cgroup.clone(), high_bytes, policy, yielded_us: None, root }
    }

    /// Whether its limit or its policy differs from the first one.
    #[must_use]
    pub fn differs_from(&self, initial: &Initial) -> bool {
        self.limit.bytes() != initial.high_bytes || self.own_policy != initial.policy
    }

    /// Checks whether another program changed the policy, and reads the counts of the readahead
    /// policy.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn check_policy(&mut self, fs: &CgroupFs, policies: &dyn PolicyControl) -> Result<()> {
        let Deciding { name, own, ejected, readahead } = policies.deciding(&self.as_cgroup(fs))?;
        self.readahead.take(readahead);
        self.own_policy = own;
        if name == self.policy {
            return Ok(());
        }
        self.policy_remark = match ejected {
            Some(reason) => format!("the kernel ejected {reason}"),
            None => format!(
                "the policy was changed to {name} by someone else (it was {}); left alone",
                self.policy
            ),
        };
        self.policy = name;
        Ok(())
    }

    /// Reads limit and policy as they are now, whoever set them, and takes them as the agent's own
    /// view.
    pub fn reread(&mut self, fs: &CgroupFs, policies: Option<&dyn PolicyControl>) {
        let found = Found { cgroup: self.cgroup.clone(), id: self.id, members: Vec::new() };
        if let Ok(now) = Self::read(fs, policies, &found) {
            let readahead = std::mem::take(&mut self.readahead);
            let conditions = std::mem::take(&mut self.conditions);
            *self = Self { tasks: self.tasks.take(), readahead, conditions, ..now };
        }
    }

    /// The tenant's state as its cgroup files show it. [`add_counts`] adds the counts of the
    /// sampler.
    #[must_use]
    pub fn shown(&self, fs: &CgroupFs, usage: &Usage, initial: Option<&Initial>) -> wire::Tenant {
        let limit_bytes = self.effective(fs, self.limit.bytes());
        let initial_bytes = initial.map_or(self.limit.bytes(), |initial| initial.high_bytes);
        let remarks = [self.limit.remark(), &self.policy_remark];
        let remarks: Vec<&str> = remarks.into_iter().filter(|r| !r.is_empty()).collect();
        // Kernels without a controller or without PSI have no such file. The value is then 0 or
        // absent.
        let stall = |name: &str| fs.stall_us(&self.cgroup, name).unwrap_or(0);
        let counters = wire::Counters {
            block_reads_total: fs.sum_of(&self.cgroup, "io.stat", "rios").unwrap_or(0),
            memory_stall_us_total: stall("memory.pressure"),
            io_stall_us_total: stall("io.pressure"),
            cpu_time_us_total: fs.value_of(&self.cgroup, "cpu.stat", "usage_usec").ok(),
            ..wire::Counters::default()
        };
        wire::Tenant {
            cgroup: self.cgroup.clone(),
            cgroup_id: self.id,
            policy: self.policy.clone(),
            limit_bytes,
            target_limit_bytes: self.limit.target().unwrap_or(limit_bytes),
            initial_limit_bytes: self.effective(fs, initial_bytes),
            floor_bytes: usage.planned_floor,
            current_bytes: usage.current,
            file_bytes: usage.file,
            anon_bytes: usage.anon,
            mapped_bytes: usage.mapped,
            counters: Some(counters),
            interference: remarks.join("; "),
            readahead: self.readahead.shown(),
            ..wire::Tenant::default()
        }
    }

    /// The limit in force, bytes: the lesser of `memory.high` and `memory.max`; 0 means none.
    fn effective(&self, fs: &CgroupFs, high: Option<u64>) -> u64 {
        let max = fs.limit(&self.cgroup, "memory.max").ok().flatten();
        high.into_iter().chain(max).min().unwrap_or(0)
    }

    /// Carries out an action: the policy first, then the limit.
    pub fn apply(
        &mut self,
        with: &mut Steering<'_>,
        policies: Option<&dyn PolicyControl>,
        action: &wire::Action,
        usage: &Usage,
    ) -> wire::Result {
        let mut verdict: Verdict = (Outcome::Unchanged, String::new());
        if let Some(policy) = &action.policy {
            verdict = self.change_policy(with.fs, policies, policy, |now| &now.name);
        }
        let stopped = matches!(verdict.0, Outcome::Refused | Outcome::Failed | Outcome::Gone);
        if let (Some(bytes), false) = (action.limit_bytes, stopped) {
            let limit = self.limit.set(with, (bytes > 0).then_some(bytes), usage);
            if limit.0 != Outcome::Unchanged {
                verdict = limit;
            }
        }
        self.result(with.fs, verdict)
    }

    /// Makes `wanted` the cgroup's policy, unless it is already. `has` selects what is compared:
    /// the policy that decides for the cgroup, or the policy of its own.
    fn change_policy(
        &mut self,
        fs: &CgroupFs,
        policies: Option<&dyn PolicyControl>,
        wanted: &str,
        has: fn(&Deciding) -> &str,
    ) -> Verdict {
        self.policy_remark.clear();
        let cgroup = self.as_cgroup(fs);
        let Some(policies) = policies else {
            let reason = "this kernel has no cache_ext: only default is possible";
            return match wanted == DEFAULT_POLICY {
                true => (Outcome::Unchanged, String::new()),
                false => (Outcome::Refused, reason.into()),
            };
        };
        if wanted != DEFAULT_POLICY && !policies.names().iter().any(|name| name == wanted) {
            return (Outcome::Refused, format!("no policy {wanted:?} on this node"));
        }
        // An ejected policy still occupies its place until it is detached or replaced.
        let before = policies.deciding(&cgroup);
        if let Ok(now) = before
            && has(&now) == wanted
            && now.ejected.is_none()
        {
            self.take_policy(now);
            return (Outcome::Unchanged, String::new());
        }
        let changed = policies.change(&cgroup, wanted, self.tasks.as_deref().unwrap_or_default());
        match changed.and_then(|()| policies.deciding(&cgroup)) {
            Ok(deciding) => {
                let now = has(&deciding).to_owned();
                self.take_policy(deciding);
                match now == wanted {
                    true => (Outcome::Applied, String::new()),
                    false => (Outcome::Failed, format!("{now} decides")),
                }
            }
            Err(_) if !cgroup.path.exists() => (Outcome::Gone, "the cgroup is gone".into()),
            Err(error) => {
                let refused = matches!(error, Error::PolicyMemory { .. });
                (if refused { Outcome::Refused } else { Outcome::Failed }, error.to_string())
            }
        }
    }

    /// Restores the tenant's first policy of its own, or the default if that policy is no longer
    /// available.
    fn give_back_policy(
        &mut self,
        fs: &CgroupFs,
        policies: Option<&dyn PolicyControl>,
        initial: &str,
    ) -> Verdict {
        if policies.is_none() && has_policy(&self.as_cgroup(fs)) {
            return (Outcome::Failed, "its policy cannot be detached here".into());
        }
        match self.change_policy(fs, policies, initial, |now| &now.own) {
            (Outcome::Refused, reason) => {
                let (outcome, failure) =
                    self.change_policy(fs, policies, DEFAULT_POLICY, |now| &now.own);
                let reason = format!("{reason}: the default instead {failure}");
                (outcome, reason.trim_end().into())
            }
            verdict => verdict,
        }
    }

    fn result(&self, fs: &CgroupFs, (outcome, reason): Verdict) -> wire::Result {
        wire::Result {
            cgroup: self.cgroup.clone(),
            outcome: outcome.into(),
            reason,
            policy: self.policy.clone(),
            limit_bytes: self.effective(fs, self.limit.bytes()),
        }
    }

    /// The result of an action that could not be tried.
    #[must_use]
    pub fn failed(&self, fs: &CgroupFs, reason: &str) -> wire::Result {
        let gone = fs.id(&self.cgroup).ok() != Some(self.id);
        let outcome = if gone { Outcome::Gone } else { Outcome::Failed };
        self.result(fs, (outcome, reason.into()))
    }
}

/// Adds the sampler's counts to a tenant's state.
pub fn add_counts(shown: &mut wire::Tenant, counts: &Counts) {
    let counters = shown.counters.get_or_insert_default();
    counters.accesses_total = counts.accesses;
    counters.misses_total = counts.misses;
    counters.refaults_total = counts.refaults;
    counters.evictions_total = counts.evictions;
    counters.readahead_pages_total = counts.readahead_pages;
    counters.mmap_accesses_total = counts.mmap_accesses;
    counters.read_calls_total = counts.read_calls;
    counters.read_time_us_total = counts.read_time_ns / 1000;
    let used = counts.latency.iter().rposition(|&calls| calls > 0).map_or(0, |last| last + 1);
    counters.read_latency_total = counts.latency[..used].to_vec();
}

/// Whether a cgroup has an eviction policy of its own, according to the kernel's statistics file.
#[must_use]
pub fn has_policy(cgroup: &Cgroup) -> bool {
    CgroupStats::read(cgroup).is_ok_and(|stats| stats.own(Kind::Eviction, cgroup.id).is_some())
}

/// The result of an action for a cgroup that is not a tenant, or not the cgroup that was meant.
#[must_use]
pub fn gone(fs: &CgroupFs, action: &wire::Action) -> wire::Result {
    let (outcome, reason) = match fs.id(&action.cgroup) {
        Ok(id) if id == action.cgroup_id => (Outcome::Refused, "not a tenant of this node".into()),
        Ok(id) => (Outcome::Gone, format!("another cgroup has this name now, with the id {id}")),
        Err(error) => (Outcome::Gone, error.to_string()),
    };
    let cgroup = action.cgroup.clone();
    wire::Result { cgroup, outcome: outcome.into(), reason, ..wire::Result::default() }
}

/// Restores the first policy and the first limit of a cgroup at once, since they were the
/// operator's. A yielded limit is left alone.
pub fn restore(
    with: &mut Steering<'_>,
    policies: Option<&dyn PolicyControl>,
    id: u64,
    initial: &Initial,
) -> wire::Result {
    let action =
        wire::Action { cgroup: initial.cgroup.clone(), cgroup_id: id, ..wire::Action::default() };
    let found = Found { cgroup: initial.cgroup.clone(), id, members: Vec::new() };
    if with.fs.id(&initial.cgroup).ok() != Some(id) {
        return gone(with.fs, &action);
    }
    match Tenant::read(with.fs, policies, &found) {
        Ok(mut tenant) => {
            let policy = tenant.give_back_policy(with.fs, policies, &initial.policy);
            let limit = match initial.yielded_us {
                None => tenant.limit.give_back(with, initial.high_bytes),
                Some(_) => (Outcome::Unchanged, "its limit is someone else's: left alone".into()),
            };
            let worst = |verdict: &Verdict| match verdict.0 {
                Outcome::Unchanged => 0,
                Outcome::Applied => 1,
                Outcome::Refused | Outcome::Gone => 2,
                // A cgroup whose restoration must be requested again must not be forgotten because
                // of a refusal.
                Outcome::Started => 3,
                _ => 4,
            };
            let verdict = if worst(&policy) > worst(&limit) { policy } else { limit };
            tenant.result(with.fs, verdict)
        }
        Err(error) => wire::Result {
            cgroup: initial.cgroup.clone(),
            outcome: Outcome::Failed.into(),
            reason: error.to_string(),
            ..wire::Result::default()
        },
    }
}
