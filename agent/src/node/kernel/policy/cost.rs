// SPDX-License-Identifier: Apache-2.0
//! What the policy of each tenant costs: CPU time of its programs per access of the tenant.
//!
//! The kernel counts how long programs run only while it is asked to, as that costs each run two
//! looks at the clock. So it is asked to for a second in thirty, and for ten seconds on end when a
//! tenant has another policy.

use crate::error::Result;
use crate::node::kernel::KernelNode;
use crate::node::kernel::policy::Counting;
use crate::wire;
use crate::wire::DEFAULT_POLICY;
use std::collections::BTreeMap;
use std::time::Duration;

/// Run times are counted for so long at a time.
const WINDOW: Duration = Duration::from_secs(1);
/// And then not for so long.
const PAUSE: Duration = Duration::from_secs(29);
/// So many windows follow one another when a tenant has another policy.
const WINDOWS_OF_A_NEW_ONE: u32 = 10;
/// Fewer accesses say little of what one costs.
const LEAST_ACCESSES: u64 = 1000;
/// The greatest cost that is told, a second: more is none of an access.
const MOST_US: f64 = 1e6;

/// Totals of the policy of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Totals {
    /// Names what was attached: another one has another.
    table_id: u32,
    /// Of its programs, while run times were counted.
    run_ns: u64,
    /// Of all tenants that it decides for.
    accesses: u64,
}

/// What one policy cost one tenant.
#[derive(Debug, Default)]
struct Tally {
    policy: String,
    /// At the beginning of the window.
    began: Option<Totals>,
    /// Of the windows that are not yet in the cost.
    run_ns: u64,
    accesses: u64,
    us_per_access: Option<f64>,
}

/// What the policies of all tenants cost.
#[derive(Default)]
pub(in crate::node::kernel) struct PolicyCosts {
    tallies: BTreeMap<u64, Tally>,
    counting: Option<Counting>,
    /// Since the window, or the pause, began.
    since: Duration,
    /// Windows yet that follow one another.
    windows: u32,
    is_refused: bool,
}

impl PolicyCosts {
    /// Takes policies as they are now; what is known of others is forgotten.
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

    /// Lets time pass: begins and ends windows, for which `count` makes the kernel count and `look`
    /// tells totals by tenant.
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

    /// Whether the kernel counts. A refusal is told once and holds as long as the agent runs.
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

    /// Microseconds per access that `policy` costs a tenant, once they are known.
    fn us_per_access(&self, id: u64, policy: &str) -> Option<f64> {
        self.tallies.get(&id).filter(|tally| tally.policy == policy)?.us_per_access
    }
}

impl Tally {
    /// Takes totals at the end of a window, which may be the beginning of the next.
    fn take(&mut self, now: Option<Totals>) {
        let before = std::mem::replace(&mut self.began, now);
        let (Some(now), Some(before)) = (now, before) else { return };
        if now.table_id != before.table_id {
            // The same policy, attached anew.
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
    /// Measures what policies cost, where there are any and accesses are counted.
    pub(in crate::node::kernel) fn measure_policies(&mut self, elapsed: Duration) {
        let Some(policies) = self.policies.as_deref() else { return };
        let mut costs = std::mem::take(&mut self.costs);
        costs.advance(elapsed, || policies.count_run_time(), || self.policy_totals());
        self.costs = costs;
    }

    /// Takes the policies in that were seen, and tells what is known of them.
    pub(in crate::node::kernel) fn tell_policy_costs(&mut self, shown: &mut [wire::Tenant]) {
        self.costs.follow(shown.iter().map(|one| (one.cgroup_id, one.policy.as_str())));
        for one in shown {
            one.policy_cpu_us_per_access = self.costs.us_per_access(one.cgroup_id, &one.policy);
        }
    }

    /// Totals of each tenant that has a policy of its own; what cannot be read is left out.
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
            // A tenant inside another one has its policy, unless it has its own.
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

/// A path and those above it, the nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(above, _)| above))
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
