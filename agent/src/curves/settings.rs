// SPDX-License-Identifier: Apache-2.0
//! How curves are learnt: the settings of an operator, and the values that follow for a node.

use crate::error::Result;
use crate::wire;
use cachepilot_models::curve::geometric_size_grid;
use cachepilot_models::hash::threshold;
use cachepilot_models::minisim::{OnlineBank, OnlineConfig};
use cachepilot_models::policy::{Candidate, policies, resolve};
use serde::Deserialize;
use std::ops::RangeInclusive;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// The longest half-life, in accesses per page of the largest size.
const LONGEST_HALF_LIFE: u64 = 4;
/// The parts of a tenant's memory: a bank, its successor, and counterfactuals.
const PARTS: u64 = 3;
/// The least memory of a bank, which its caches take even if they are nearly empty.
const LEAST_BYTES: u64 = 1 << 20;
/// The share of a node's memory that a tenant needs to have curves, bytes.
pub const LEAST_SHARE_BYTES: u64 = PARTS * LEAST_BYTES;
/// The largest size of a grid divided by the smallest.
const GRID_SPAN: u64 = 256;

/// The table `[curves]` of the configuration of an agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurvesSettings {
    /// Number of sizes in the grid, 4 to 64.
    pub points: usize,
    /// Every `stride`-th size is simulated; the others follow from LRU. 1 to 8.
    pub stride: usize,
    /// Number of accesses after which the weight of an access has halved; 0 to follow the working
    /// set.
    pub half_life_accesses: u64,
    /// The least number of sampled accesses in a half-life, 16 to 1,000,000.
    pub min_samples: u64,
    /// Events per second and tenant that the sampler may deliver, 10 to 1,000,000. A tenant with a
    /// page cache below 16 MiB may have more in proportion, and four times as many from 4 MiB down.
    pub events_per_s: f64,
    /// Simulated accesses per second and tenant, over all policies and sizes, 1,000 to 1e9. This is
    /// the cost of learning, about 30 ns each.
    pub cell_events_per_s: f64,
    /// Sampled pages per tenant, 64 to 1,048,576.
    pub sample_pages: usize,
    /// Memory per tenant, MiB, 1 to 1024. A successor may take as much again.
    pub memory_mib: u64,
    /// Memory of the curves of all tenants of a node together, MiB, 4 to 1,048,576. Tenants share
    /// it, with successors and counterfactuals. Tenants for which nothing is left have no curves.
    pub node_memory_mib: u64,
    /// Policies and variants (`NAME:VARIANT`) to simulate besides `default_model`; empty for those
    /// that the autopilot may choose.
    pub policies: Vec<String>,
    /// The simulated policy that represents the kernel's own.
    pub default_model: String,
}

impl Default for CurvesSettings {
    fn default() -> Self {
        Self {
            points: 16,
            stride: 3,
            half_life_accesses: 0,
            min_samples: 200,
            events_per_s: 2000.0,
            cell_events_per_s: 20_000.0,
            sample_pages: 4096,
            memory_mib: 3,
            node_memory_mib: 128,
            policies: Vec::new(),
            default_model: "kernel_lru".into(),
        }
    }
}

impl CurvesSettings {
    /// Refuses a value that is out of range.
    ///
    /// # Errors
    /// One line that names the key, the value and what is allowed.
    pub fn check(&self) -> std::result::Result<(), String> {
        within("points", self.points as f64, 4.0..=64.0)?;
        within("stride", self.stride as f64, 1.0..=8.0)?;
        within("min_samples", self.min_samples as f64, 16.0..=1e6)?;
        within("events_per_s", self.events_per_s, 10.0..=1e6)?;
        within("cell_events_per_s", self.cell_events_per_s, 1e3..=1e9)?;
        within("sample_pages", self.sample_pages as f64, 64.0..=1_048_576.0)?;
        within("memory_mib", self.memory_mib as f64, 1.0..=1024.0)?;
        within("node_memory_mib", self.node_memory_mib as f64, 4.0..=1_048_576.0)?;
        let known = |key: &str, name: &str| {
            resolve(name).map(drop).map_err(|error| format!("curves.{key}: {error}"))
        };
        known("default_model", &self.default_model)?;
        self.policies.iter().try_for_each(|name| known("policies", name))
    }

    /// The configuration for a node whose tenants share `budget_bytes`. The grid rises from a 256th
    /// of that to all of it, in whole pages.
    #[must_use]
    pub fn config(&self, budget_bytes: u64) -> CurvesConfig {
        let largest = (budget_bytes / PAGE_BYTES).max(1);
        CurvesConfig {
            sizes_pages: geometric_size_grid(largest.div_ceil(GRID_SPAN), largest, self.points),
            sample_pages: self.sample_pages,
            half_life: self.half_life_accesses,
            default_model: self.default_model.clone(),
            policies: self.policies.clone(),
            stride: self.stride,
            min_samples: self.min_samples,
            events_per_s: self.events_per_s,
            cell_events_per_s: self.cell_events_per_s,
            max_bytes: self.memory_mib << 20,
            node_bytes: self.node_memory_mib << 20,
            tasks: None,
        }
    }
}

fn within(key: &str, value: f64, range: RangeInclusive<f64>) -> std::result::Result<(), String> {
    match range.contains(&value) {
        true => Ok(()),
        false => {
            Err(format!("curves.{key}: {value} is not in {}..={}", range.start(), range.end()))
        }
    }
}

/// How curves are learnt. It is the same for every tenant of a node, except for `tasks` and the
/// memory.
#[derive(Debug, Clone)]
pub struct CurvesConfig {
    /// Sizes of the grid, pages, ascending.
    pub sizes_pages: Vec<u64>,
    /// The most pages that are sampled.
    pub sample_pages: usize,
    /// Number of accesses after which the weight of an access has halved; 0 to follow the working
    /// set.
    pub half_life: u64,
    /// The simulated policy that represents the kernel's own.
    pub default_model: String,
    /// As in [`CurvesSettings`].
    pub policies: Vec<String>,
    /// As in [`CurvesSettings`].
    pub stride: usize,
    /// As in [`CurvesSettings`].
    pub min_samples: u64,
    /// As in [`CurvesSettings`].
    pub events_per_s: f64,
    /// As in [`CurvesSettings`].
    pub cell_events_per_s: f64,
    /// Memory of one bank of a tenant's curves, bytes.
    pub max_bytes: u64,
    /// Memory of the curves of all tenants together, bytes.
    pub node_bytes: u64,
    /// Ids of the tasks that the objective of the tenant names; `None` if it names none.
    pub tasks: Option<Vec<u32>>,
}

impl Default for CurvesConfig {
    /// The default settings on a node of 1 GiB.
    fn default() -> Self {
        CurvesSettings::default().config(1 << 30)
    }
}

impl CurvesConfig {
    /// The policies and variants to simulate, in the order of the registry. Policies that treat
    /// tasks apart are among them only if tasks are named, and get those tasks.
    #[must_use]
    pub fn simulated(&self) -> Vec<Candidate> {
        let wanted = |one: &Candidate| {
            let manifest = &one.policy.manifest;
            let suits = self.tasks.is_some() && manifest.needs_tasks() && !manifest.simulation_only;
            let is_candidate = self.policies.is_empty() && (manifest.autopilot || suits);
            is_candidate || self.policies.contains(&one.name) || one.name == self.default_model
        };
        let all = policies().iter().flat_map(|policy| policy.candidates());
        all.filter(wanted).map(|one| self.with_tasks(one)).collect()
    }

    /// The policy or variant of a name on the wire, with the tasks of the tenant.
    ///
    /// # Errors
    /// Returns an error if no policy or variant has this name.
    pub(super) fn resolve(&self, name: &str) -> Result<Candidate> {
        Ok(self.with_tasks(resolve(self.model_of(name))?))
    }

    fn with_tasks(&self, mut candidate: Candidate) -> Candidate {
        if let Some(tasks) = &self.tasks {
            let manifest = &candidate.policy.manifest;
            candidate.tunables = manifest.with_tasks(candidate.tunables, tasks);
        }
        candidate
    }

    /// The policies whose counterfactuals are reported: those simulated, the default first.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = self.simulated();
        candidates.sort_by_key(|one| one.name != self.default_model);
        candidates
    }

    /// The name on the wire of a simulated policy.
    #[must_use]
    pub fn name_of(&self, model: &str) -> String {
        let is_default = model == self.default_model;
        (if is_default { wire::DEFAULT_POLICY } else { model }).to_owned()
    }

    /// The simulated policy that has this name on the wire.
    #[must_use]
    pub fn model_of<'a>(&'a self, policy: &'a str) -> &'a str {
        if policy == wire::DEFAULT_POLICY { &self.default_model } else { policy }
    }

    /// The configuration for a tenant that may have `share` bytes in all. The bank and the sample
    /// of pages behind it become smaller, down to the least size at which a bank is useful.
    #[must_use]
    pub fn with_share(&self, share: u64) -> Self {
        let most = self.max_bytes.max(1);
        let max_bytes = (share / PARTS).max(LEAST_BYTES).min(self.max_bytes);
        let pages = (self.sample_pages as f64 * max_bytes as f64 / most as f64).ceil() as usize;
        Self { max_bytes, sample_pages: pages.min(self.sample_pages), ..self.clone() }
    }

    /// A bank of empty caches, with these rates of the large and the small sample.
    pub(super) fn bank(&self, rate: f64, small_rate: f64) -> Result<OnlineBank> {
        let largest = self.sizes_pages.last().copied().unwrap_or(1);
        let half_life = match self.half_life {
            0 => (1, largest.saturating_mul(LONGEST_HALF_LIFE)),
            fixed => (fixed, fixed),
        };
        let online = OnlineConfig {
            policies: self.simulated(),
            sizes_pages: self.sizes_pages.clone(),
            stride: self.stride,
            half_life,
            min_samples: self.min_samples,
            seed: 0,
        };
        Ok(OnlineBank::new(online, threshold(rate), threshold(small_rate))?)
    }

    /// Number of simulated accesses per sampled access.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.simulated().len() * self.sizes_pages.len().div_ceil(self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> std::result::Result<CurvesSettings, String> {
        let settings: CurvesSettings = toml::from_str(text).map_err(|e| e.to_string())?;
        settings.check().map(|()| settings)
    }

    #[test]
    fn defaults_are_allowed_and_unknown_keys_are_not() {
        assert_eq!(parse("").unwrap(), CurvesSettings::default());
        assert!(parse("point = 3").unwrap_err().contains("unknown field"));
    }

    #[test]
    fn a_refusal_names_key_value_and_range() {
        assert_eq!(parse("points = 3").unwrap_err(), "curves.points: 3 is not in 4..=64");
        assert!(parse("events_per_s = nan").unwrap_err().contains("events_per_s: NaN"));
        let unknown = parse("policies = ['lru', 'lur']").unwrap_err();
        assert!(
            unknown.starts_with("curves.policies: ") && unknown.contains("s3fifo"),
            "{unknown}"
        );
        assert!(parse("default_model = 'x'").unwrap_err().starts_with("curves.default_model: "));
    }

    #[test]
    fn the_default_model_is_simulated_in_any_case() {
        let config = parse("policies = ['lfu']").unwrap().config(1 << 30);
        let names: Vec<_> = config.simulated().into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["kernel_lru", "lfu"]);
        assert_eq!(config.cells(), 12);
    }

    #[test]
    fn policies_that_treat_tasks_apart_are_for_tenants_with_named_tasks() {
        let names = |config: &CurvesConfig| -> Vec<String> {
            config.candidates().into_iter().map(|one| one.name).collect()
        };
        let mut config = CurvesConfig::default();
        let without = names(&config);
        assert!(!without.contains(&"get_scan".into()));
        config.tasks = Some(vec![7, 9]);
        let more: Vec<String> =
            names(&config).into_iter().filter(|name| !without.contains(name)).collect();
        assert_eq!(more, ["admission", "get_scan"]);
        let get_scan = config.resolve("get_scan").unwrap();
        assert_eq!(get_scan.tunables[..3], [7, 9, 0]);
        config.policies = vec!["lfu".into()];
        assert_eq!(names(&config), ["kernel_lru", "lfu"], "what the operator names is all");
    }

    proptest! {
        #[test]
        fn the_bounds_of_a_tenant_follow_its_share(share in 0u64..1 << 40) {
            let all = CurvesConfig::default();
            let one = all.with_share(share);
            prop_assert!(one.max_bytes <= all.max_bytes && one.sample_pages <= all.sample_pages);
            let of = |config: &CurvesConfig| config.max_bytes as f64 / config.sample_pages as f64;
            prop_assert!(of(&one) <= of(&all) * 1.01, "no fewer pages for its bytes");
            prop_assert!(one.max_bytes * PARTS <= share.max(LEAST_BYTES * PARTS));
        }

        #[test]
        fn grids_end_at_the_budget(budget in 0u64..1 << 45) {
            let config = CurvesSettings::default().config(budget);
            let sizes = config.sizes_pages;
            prop_assert_eq!(*sizes.last().unwrap(), (budget / PAGE_BYTES).max(1));
            prop_assert!(sizes[0] >= 1 && sizes.windows(2).all(|w| w[0] < w[1]));
        }
    }
}
