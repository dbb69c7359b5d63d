// SPDX-License-Identifier: Apache-2.0
//! The cost of each tenant's policy: CPU time of the policy's programs per access of the tenant.
//!
//! The kernel counts the run time of programs only on request, since that costs two reads of the
//! clock per run. It is therefore requested for one second in thirty, and for ten consecutive
//! seconds when a tenant gets another policy.

use crate::error::Result;
use crate::node::kernel::KernelNode;
use crate::node::kernel::policy::Counting;
use crate::wire;
use crate::wire::DEFAULT_POLICY;
use std::collections::BTreeMap;
use std::time::Duration;

/// Length of a window in which run times are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Time between two windows.
const PAUSE: Duration = Duration::from_secs(29);
/// Number of consecutive windows after a tenant got another policy.
const WINDOWS_OF_A_NEW_ONE: u32 = 10;
/// The least number of accesses from which a cost is computed.
const LEAST_ACCESSES: u64 = 1000;
/// The greatest cost that is reported, microseconds (one second). A greater value is not the cost
/// of an access.
const MOST_US: f64 = 1e6;

/// Totals of the policy of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Totals {
    /// Identifies the attachment: each one has its own table of hooks.
    table_id: u32,
    /// Run time of the policy's programs while run times were counted.
    run_ns: u64,
    /// Accesses of all tenants for which the policy decides.
    accesses: u64,
}

/// The cost of one policy for one tenant.
#[derive(Debug, Default)]
struct Tally {
    policy: String,
    /// Totals at the beginning of the window.
    began: Option<Totals>,
    /// Run time in the windows that are not yet part of `us_per_access`.
    run_ns: u64,
    accesses: u64,
    us_per_access: Option<f64>,
}

/// The costs of the policies of all tenants.
#[derive(Default)]
pub(in crate::node::kernel) struct PolicyCosts {
    tallies: BTreeMap<u64, Tally>,
    counting: Option<Counting>,
    /// Time since the window, or the pause, began.
    since: Duration,
    /// Number of consecutive windows that remain.
    windows: u32,
    is_refused: bool,
}

impl PolicyCosts {
    /// Sets the policies in force, and forgets the costs of others.
    fn follow<'a>(&mut self, deciding: impl Iterator<Item = (u64, &'a str)>) {
        let mut known = std::mem::take(&mut self.tallies);
        for (id, policy) in deciding.filter(|&(_, policy)| policy != DEFAULT_POLICY) {
            let tally = known.remove(&id).filter(|tally| tally.policy == policy);
            let tally = tally.unwrap_or_else(|| {
                self.windows = WINDOWS_OF_A_NEW_ONE;
                Tally { policy: policy.into(), ..Tally::default() }
            });
            self.tallies.insert(id, tally);
        }
    }

    /// Advances time, and begins and ends windows. `count` makes the kernel count run times, and
    /// `look` returns the totals by tenant.
    fn advance(
        &mut self,
        elapsed: Duration,
        count: impl FnOnce() -> Result<Counting>,
        look: impl FnOnce() -> BTreeMap<u64, Totals>,
    ) {
        self.since += elapsed;
        let is_counting = self.counting.is_some();
        if self.is_refused || (self.tallies.is_empty() && !is_counting) {
            return;
        }
        let lasts = if is_counting || self.windows > 0 { WINDOW } else { PAUSE };
        if self.since < lasts {
            return;
        }
        self.since = Duration::ZERO;
        if !is_counting && !self.begin(count) {
            return;
        }
        let now = look();
        for (id, tally) in &mut self.tallies {
            tally.take(now.get(id).copied());
        }
        if is_counting {
            self.windows = self.windows.saturating_sub(1);
            if self.windows == 0 {
                self.counting = None;
                self.tallies.values_mut().for_each(|tally| tally.began = None);
            }
        }
    }

    /// Makes the kernel count run times, and returns whether it does. A refusal is logged once and
    /// is final for this agent.
    fn begin(&mut self, count: impl FnOnce() -> Result<Counting>) -> bool {
        match count() {
            Ok(counting) => self.counting = Some(counting),
            Err(error) => {
                tracing::warn!(%error, "what policies cost cannot be measured: it counts as nothing");
                self.is_refused = true;
            }
        }
        !self.is_refused
    }

    /// Microseconds of CPU time per access that `policy` costs a tenant; `None` until measured.
    fn us_per_access(&self, id: u64, policy: &str) -> Option<f64> {
        self.tallies.get(&id).filter(|tally| tally.policy == policy)?.us_per_access
    }
}

impl Tally {
    /// Takes the totals at the end of a window, which may be the beginning of the next one.
    fn take(&mut self, now: Option<Totals>) {
        let before = std::mem::replace(&mut self.began, now);
        let (Some(now), Some(before)) = (now, before) else { return };
        if now.table_id != before.table_id {
            // The policy was detached and attached again in between.
            (self.run_ns, self.accesses) = (0, 0);
            return;
        }
        self.run_ns += now.run_ns.saturating_sub(before.run_ns);
        self.accesses += now.accesses.saturating_sub(before.accesses);
        if self.accesses >= LEAST_ACCESSES {
            let us = self.run_ns as f64 / 1e3 / self.accesses as f64;
            self.us_per_access = Some(us.min(MOST_US));
            (self.run_ns, self.accesses) = (0, 0);
        }
    }
}

impl KernelNode {
    /// Measures the cost of policies, if there are any and accesses are counted.
    pub(in crate::node::kernel) fn measure_policies(&mut self, elapsed: Duration) {
        let Some(policies) = self.policies.as_deref() else { return };
        let mut costs = std::mem::take(&mut self.costs);
        costs.advance(elapsed, || policies.count_run_time(), || self.policy_totals());
        self.costs = costs;
    }

    /// Sets the policies that were observed, and adds their costs to the tenants' states.
    pub(in crate::node::kernel) fn tell_policy_costs(&mut self, shown: &mut [wire::Tenant]) {
        self.costs.follow(shown.iter().map(|one| (one.cgroup_id, one.policy.as_str())));
        for one in shown {
            one.policy_cpu_us_per_access = self.costs.us_per_access(one.cgroup_id, &one.policy);
        }
    }

    /// Totals of each tenant that has a policy of its own. A tenant whose totals cannot be read is
    /// left out.
    fn policy_totals(&self) -> BTreeMap<u64, Totals> {
        let (Some(policies), Some(sampling)) = (self.policies.as_deref(), &self.sampling) else {
            return BTreeMap::new();
        };
        let mut found: BTreeMap<&str, (u64, Option<Totals>)> = BTreeMap::new();
        for tenant in self.tenants.values().filter(|tenant| tenant.policy() != DEFAULT_POLICY) {
            if let Ok(Some((table_id, run_ns))) = policies.run_time_ns(&tenant.as_cgroup(&self.fs))
            {
                let totals = Totals { table_id, run_ns, accesses: 0 };
                found.insert(&tenant.cgroup, (tenant.id, Some(totals)));
            }
        }
        if found.is_empty() {
            return BTreeMap::new();
        }
        let accesses = sampling.accesses();
        for tenant in self.tenants.values() {
            // A tenant inside another one has the outer tenant's policy, unless it has its own.
            let above = ancestors(&tenant.cgroup).find(|path| found.contains_key(path));
            let Some((_, totals)) = above.and_then(|path| found.get_mut(path)) else { continue };
            match (accesses.get(&tenant.id), totals.as_mut()) {
                (Some(accesses), Some(totals)) => totals.accesses += accesses,
                _ => *totals = None,
            }
        }
        found.into_values().filter_map(|(id, totals)| Some((id, totals?))).collect()
    }
}

/// A path and the paths above it, the nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(above, _)| above))
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
