// SPDX-License-Identifier: Apache-2.0
//! Tasks that the objective of a tenant names. They change the candidate policies and their
//! tunables.

use super::TenantCurves;
use crate::curves::CurvesConfig;
use crate::error::Result;

/// Counters in the report of a tenant that never fall while the tenant exists.
#[derive(Debug, Clone, Copy, Default)]
pub struct Generations {
    pub(super) curves: u64,
    pub(super) counterfactuals: u64,
    pub(super) phase: u64,
}

/// Names of the simulated policies, as on the wire.
pub(super) fn names_of(config: &CurvesConfig) -> Vec<String> {
    config.simulated().iter().map(|one| config.name_of(&one.name)).collect()
}

impl TenantCurves {
    /// Sets the ids of the tasks that the tenant's objective names; `None` if it names none. If
    /// this changes the candidate policies, everything except the rates starts again.
    ///
    /// # Errors
    /// Returns the error of the simulation.
    pub fn set_tasks(&mut self, tasks: Option<&[u32]>) -> Result<()> {
        if self.config.tasks.as_deref() == tasks {
            return Ok(());
        }
        let before = names_of(&self.config);
        self.config.tasks = tasks.map(Into::into);
        if names_of(&self.config) != before {
            return self.begin_anew();
        }
        for candidate in self.config.simulated() {
            for bank in std::iter::once(&mut self.bank).chain(&mut self.successor) {
                bank.set_tunables(&candidate)?;
            }
        }
        self.counterfactuals.set_tasks(&self.config)
    }

    fn begin_anew(&mut self) -> Result<()> {
        let after = self.generations();
        let mut new = Self::begin(&self.config, self.budget.clone(), after)?;
        new.self_sampled = self.self_sampled;
        new.set_kernel_threshold(self.kernel_threshold)?;
        *self = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cachepilot_models::policy::Requests;

    const SIZE: u64 = 100 * 4096;

    /// A loop over 80 pages by task 1, which fit into the cache, and ever new pages by task 7, with
    /// which they do not.
    fn feed(tenant: &mut TenantCurves, part: u64, first: u64) {
        let key = |i: u64| {
            if i.is_multiple_of(2) { 1_000_000 + part * 5000 + i } else { first + i / 2 % 80 }
        };
        let keys: Vec<u64> = (0..5000).map(key).collect();
        let tasks: Vec<u32> = (0..5000).map(|i| if i % 2 == 0 { 7 } else { 1 }).collect();
        let requests = Requests { keys: &keys, tasks: &tasks, times_ns: &[] };
        tenant.feed_sampled(requests, 5000).unwrap();
    }

    /// Misses of `admission` since the totals began.
    fn misses(tenant: &mut TenantCurves) -> f64 {
        let told = tenant.counterfactuals("default", SIZE).unwrap().unwrap();
        let groups = told.accesses_total.len();
        let row = told.policies.iter().position(|one| one == "admission").unwrap();
        told.misses_total[row * groups..][..groups].iter().sum()
    }

    #[test]
    fn with_named_tasks_policies_that_treat_them_apart_are_candidates() {
        let mut tenant = TenantCurves::new(&CurvesConfig::default()).unwrap();
        let told = tenant.counterfactuals("default", SIZE).unwrap().unwrap();
        assert!(!told.policies.contains(&"admission".into()), "{:?}", told.policies);
        (0..4).for_each(|part| feed(&mut tenant, part, 0));
        let (curves, before) = (tenant.curves().unwrap(), told.generation);

        tenant.set_tasks(Some(&[7])).unwrap();
        assert!(tenant.curves().is_none() && tenant.generation() == 0, "they start again");
        misses(&mut tenant);
        (4..8).for_each(|part| feed(&mut tenant, part, 0));
        let admission = misses(&mut tenant);
        assert!((10_000.0..=10_080.0).contains(&admission), "task 7 misses: {admission}");
        assert!(tenant.curves().unwrap().generation > curves.generation);
        let told = tenant.counterfactuals("default", SIZE).unwrap().unwrap();
        assert!(told.generation > before);

        // The other task is named instead. The pages cached for it would still serve it.
        tenant.set_tasks(Some(&[1])).unwrap();
        let told = tenant.counterfactuals("default", SIZE).unwrap().unwrap();
        let generation = told.generation;
        let before = misses(&mut tenant);
        feed(&mut tenant, 8, 500);
        let after = misses(&mut tenant);
        assert!(after - before > 4000.0, "task 1 is filtered, so all misses: {}", after - before);
        let told = tenant.counterfactuals("default", SIZE).unwrap().unwrap();
        assert_eq!(told.generation, generation, "other ids are no other policies");

        tenant.set_tasks(None).unwrap();
        let told = tenant.counterfactuals("default", SIZE).unwrap().unwrap();
        assert!(!told.policies.contains(&"admission".into()) && told.generation > generation);
    }
}
