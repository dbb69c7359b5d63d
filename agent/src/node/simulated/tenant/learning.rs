// SPDX-License-Identifier: Apache-2.0
//! The curves of one tenant. This is the only module of the simulation that knows how curves are
//! learnt.

use super::tasks::Tasks;
use crate::curves::{CurvesConfig, Measured, TenantCurves};
use crate::error::Result;
use crate::node::simulated::accesses::Accesses;
use crate::wire;
use cachepilot_models::policy::Requests;
use std::time::Duration;

/// Number of accesses that are fed at a time.
const BATCH: usize = 8192;

/// Curves, and whether they may be acted on.
pub(super) struct Learning {
    curves: TenantCurves,
    pending: Vec<u64>,
    pending_tasks: Vec<u32>,
    pub(super) tasks: Tasks,
    /// Start of the window that is judged next; the following fields are the counts at that time.
    since_ns: u64,
    accesses_before: u64,
    misses_before: u64,
    trusted: bool,
    distrust: String,
}

impl Learning {
    pub(super) fn new(config: &CurvesConfig, now_ns: u64) -> Result<Self> {
        Ok(Self {
            curves: TenantCurves::new(config)?,
            pending: Vec::with_capacity(2 * BATCH),
            pending_tasks: Vec::new(),
            tasks: Tasks::default(),
            since_ns: now_ns,
            accesses_before: 0,
            misses_before: 0,
            trusted: false,
            distrust: "warming up: nothing was sampled yet".into(),
        })
    }

    pub(super) fn feed(&mut self, accesses: &Accesses) -> Result<()> {
        self.pending.extend(&accesses.keys);
        self.pending_tasks.extend(&accesses.tasks);
        self.tasks.note(&accesses.tasks);
        if self.pending.len() < BATCH { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        let tasks = match self.pending_tasks.iter().all(|&task| task == 0) {
            true => &[][..],
            false => &self.pending_tasks,
        };
        self.curves.feed(Requests { keys: &self.pending, tasks, times_ns: &[] })?;
        self.pending.clear();
        self.pending_tasks.clear();
        Ok(())
    }

    /// Writes what is known at `now_ns` into `tenant`: the curves, their generation, and whether
    /// they agree with its counters since the last call for a page cache of `cache_bytes`.
    pub(super) fn tell(
        &mut self,
        tenant: &mut wire::Tenant,
        cache_bytes: u64,
        now_ns: u64,
    ) -> Result<()> {
        self.flush()?;
        if now_ns > self.since_ns {
            self.curves.advance(Duration::from_nanos(now_ns - self.since_ns))?;
            self.judge(tenant, cache_bytes);
            self.since_ns = now_ns;
        }
        (tenant.trusted, tenant.distrust) = (self.trusted, self.distrust.clone());
        tenant.curves = self.curves.curves();
        tenant.curves_generation = self.curves.generation();
        tenant.phase = self.curves.phase();
        tenant.counterfactuals = self.curves.counterfactuals(&tenant.policy, cache_bytes)?;
        Ok(())
    }

    /// Sets the ids of the named tasks; `None` if no tasks are named.
    pub(super) fn set_tasks(&mut self, tasks: Option<&[u32]>) -> Result<()> {
        self.flush()?;
        self.curves.set_tasks(tasks)
    }

    fn judge(&mut self, tenant: &wire::Tenant, cache_bytes: u64) {
        let (accesses, misses) =
            tenant.counters.as_ref().map_or((0, 0), |c| (c.accesses_total, c.misses_total));
        let (trusted, distrust) = self.curves.judge(&Measured {
            policy: &tenant.policy,
            size_bytes: cache_bytes,
            accesses: accesses - self.accesses_before,
            misses: misses - self.misses_before,
            dropped: 0,
        });
        (self.trusted, self.distrust) = (trusted, distrust.to_owned());
        (self.accesses_before, self.misses_before) = (accesses, misses);
    }
}
