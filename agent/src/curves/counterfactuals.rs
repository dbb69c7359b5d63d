// SPDX-License-Identifier: Apache-2.0
//! Counterfactuals: what every policy that the autopilot may choose would miss of a tenant's
//! accesses now.

use super::settings::{CurvesConfig, PAGE_BYTES};
use crate::error::Result;
use crate::wire;
use cachepilot_models::hash::rate_of;
use cachepilot_models::minisim::Counterfactuals;
use cachepilot_models::policy::Requests;

/// The size limit of a simulated cache, as a multiple of the pages that the sample may contain. All
/// sampled pages fit into a cache of that size.
const LARGEST_SHARE: f64 = 2.0;

/// Counterfactuals of one tenant: the default and the candidates of the autopilot, over all events
/// of the sampler. Nothing is simulated before the size of its page cache is known.
pub(super) struct TenantCounterfactuals {
    config: CurvesConfig,
    threshold: u64,
    size_bytes: u64,
    in_force: String,
    caches: Option<Counterfactuals>,
    /// Number of generations before the first of these caches.
    earlier: u64,
}

impl TenantCounterfactuals {
    pub(super) fn new(config: &CurvesConfig, threshold: u64, earlier: u64) -> Self {
        Self {
            config: config.clone(),
            threshold,
            size_bytes: 0,
            in_force: String::new(),
            caches: None,
            earlier,
        }
    }

    /// Generation of the totals that were reported last.
    pub(super) fn generation(&self) -> u64 {
        self.earlier + self.caches.as_ref().map_or(0, |caches| caches.totals().generation)
    }

    /// Sets the tasks that policies treat apart to those of `config`.
    pub(super) fn set_tasks(&mut self, config: &CurvesConfig) -> Result<()> {
        self.config.tasks.clone_from(&config.tasks);
        let Some(caches) = &mut self.caches else { return Ok(()) };
        let names: Vec<String> = caches.policies().map(Into::into).collect();
        for name in names {
            caches.set_tunables(&self.config.resolve(&name)?)?;
        }
        Ok(())
    }

    /// Sets the most pages that are sampled. The simulated size follows with the next
    /// [`Self::tell`].
    pub(super) fn set_sample_pages(&mut self, pages: usize) {
        self.config.sample_pages = pages;
    }

    pub(super) fn access(&mut self, requests: Requests<'_>) -> Result<()> {
        Ok(self.caches.iter_mut().try_for_each(|caches| caches.access(requests))?)
    }

    /// Takes accesses to pages that another cgroup keeps in memory.
    pub(super) fn serve(&mut self, keys: &[u64]) {
        self.caches.iter_mut().for_each(|caches| caches.serve(keys));
    }

    /// Removes pages that no longer exist.
    pub(super) fn forget(&mut self, keys: &[u64]) {
        self.caches.iter_mut().for_each(|caches| caches.forget(keys));
    }

    /// Sets the threshold below which the kernel samples pages from now on.
    pub(super) fn set_threshold(&mut self, threshold: u64) -> Result<()> {
        self.threshold = threshold;
        if let Some(caches) = &mut self.caches {
            caches.set_threshold(threshold)?;
            caches.set_size(self.config.simulated_pages(self.size_bytes, threshold))?;
        }
        Ok(())
    }

    /// Prepares for more sampled pages, which will last.
    pub(super) fn expect_more(&mut self) {
        self.caches.iter_mut().for_each(Counterfactuals::expect_more);
    }

    pub(super) fn begin_phase(&mut self) -> Result<()> {
        let in_force = &self.in_force;
        Ok(self.caches.iter_mut().try_for_each(|caches| caches.begin_phase(in_force))?)
    }

    /// Follows a page cache of `size_bytes` under the policy `in_force` (its name on the wire), and
    /// returns the totals so far. `None` without a page cache.
    ///
    /// A policy that is not a candidate is reported while it is in force, so that it can be
    /// compared with those that may replace it, and not after that: the controller may choose any
    /// policy that is reported.
    pub(super) fn tell(
        &mut self,
        in_force: &str,
        size_bytes: u64,
    ) -> Result<Option<wire::Counterfactuals>> {
        if size_bytes < PAGE_BYTES {
            return Ok(None);
        }
        self.size_bytes = size_bytes;
        let pages = self.config.simulated_pages(size_bytes, self.threshold);
        let in_force = self.config.model_of(in_force);
        let candidates = self.config.candidates();
        let is_candidate = |name: &str| candidates.iter().any(|one| one.name == name);
        let caches = match &mut self.caches {
            Some(caches) => caches,
            none => {
                let all = candidates.clone();
                none.insert(Counterfactuals::new(all, pages, self.threshold, 0)?)
            }
        };
        caches.set_size(pages)?;
        if self.in_force != in_force && !is_candidate(&self.in_force) {
            caches.exclude(&self.in_force);
        }
        in_force.clone_into(&mut self.in_force);
        // A policy that only the kernel knows is not simulated.
        if let Ok(policy) = self.config.resolve(in_force) {
            caches.include(policy)?;
        }
        let totals = caches.totals();
        Ok(Some(wire::Counterfactuals {
            generation: self.earlier + totals.generation,
            policies: caches.policies().map(|name| self.config.name_of(name)).collect(),
            accesses_total: totals.accesses,
            misses_total: totals.misses,
            // Unknown: the pages that a policy caches and the one in force does not say little
            // about this.
            reread_pages: vec![0.0; caches.policies().count()],
            size_bytes,
            rate: caches.rate(),
        }))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.caches.as_ref().map_or(0, Counterfactuals::bytes)
    }
}

impl CurvesConfig {
    /// The simulated size for a page cache of `size_bytes`, pages.
    fn simulated_pages(&self, size_bytes: u64, threshold: u64) -> u64 {
        let rate = rate_of(threshold).max(f64::MIN_POSITIVE);
        let all = LARGEST_SHARE * self.sample_pages as f64 / rate;
        ((size_bytes / PAGE_BYTES) as f64).min(all) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(keys: &[u64]) -> TenantCounterfactuals {
        let mut tenant = TenantCounterfactuals::new(&CurvesConfig::default(), u64::MAX, 0);
        tenant.tell("default", 100 * PAGE_BYTES).unwrap();
        tenant.access(Requests::of_keys(keys)).unwrap();
        tenant
    }

    #[test]
    fn the_default_is_the_first_candidate() {
        let told = fed(&[1, 2, 1]).tell("default", 100 * PAGE_BYTES).unwrap().unwrap();
        assert_eq!(told.policies[0], wire::DEFAULT_POLICY);
        assert!(told.policies.contains(&"wtinylfu".to_owned()), "{:?}", told.policies);
        let groups = told.accesses_total.len();
        assert_eq!(told.misses_total.len(), groups * told.policies.len());
        assert_eq!(told.accesses_total.iter().sum::<f64>(), 3.0);
        for row in told.misses_total.chunks(groups) {
            assert_eq!(row.iter().sum::<f64>(), 2.0);
        }
        assert_eq!(told.reread_pages, vec![0.0; told.policies.len()]);
    }

    #[test]
    fn a_policy_in_force_that_is_no_candidate_is_simulated_too() {
        let mut tenant = fed(&[1, 2, 1]);
        let told = tenant.tell("mru", 100 * PAGE_BYTES).unwrap().unwrap();
        assert_eq!((told.policies.last().unwrap().as_str(), told.generation), ("mru", 2));
        assert!(tenant.tell("only_in_the_kernel", 100 * PAGE_BYTES).unwrap().is_some());
    }

    #[test]
    fn a_policy_that_is_no_candidate_is_dropped_when_replaced() {
        let mut tenant = fed(&[1, 2, 1]);
        let size = 100 * PAGE_BYTES;
        tenant.tell("mru", size).unwrap();
        tenant.access(Requests::of_keys(&[1, 3])).unwrap();
        let told = tenant.tell("lirs", size).unwrap().unwrap();
        assert!(!told.policies.contains(&"mru".to_owned()), "{:?}", told.policies);
        let counted: f64 = told.accesses_total.iter().sum();
        assert_eq!((told.generation, counted), (2, 2.0), "the totals of the others go on");
        let told = tenant.tell("default", size).unwrap().unwrap();
        assert!(told.policies.contains(&"lirs".to_owned()), "a candidate stays");
    }

    #[test]
    fn configured_policies_are_candidates_in_force_or_not() {
        let config = CurvesConfig { policies: vec!["mru".into()], ..CurvesConfig::default() };
        let mut tenant = TenantCounterfactuals::new(&config, u64::MAX, 0);
        for in_force in ["default", "mru", "default"] {
            let told = tenant.tell(in_force, 100 * PAGE_BYTES).unwrap().unwrap();
            assert_eq!((told.policies, told.generation), (vec!["default".into(), "mru".into()], 1));
        }
    }

    #[test]
    fn without_a_page_cache_there_are_no_counterfactuals() {
        let mut tenant = TenantCounterfactuals::new(&CurvesConfig::default(), u64::MAX, 0);
        assert_eq!(tenant.tell("default", 100).unwrap(), None);
        assert_eq!(tenant.bytes(), 0);
    }

    #[test]
    fn no_limit_costs_no_more_memory_than_all_pages_of_the_sample() {
        let config = CurvesConfig::default();
        assert_eq!(config.simulated_pages(1 << 45, u64::MAX), 2 * config.sample_pages as u64);
        assert_eq!(config.simulated_pages(1 << 20, u64::MAX), 256);
    }
}
