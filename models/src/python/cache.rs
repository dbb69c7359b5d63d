// SPDX-License-Identifier: Apache-2.0
//! A simulated page cache that Python code drives request by request.

use super::simulation::{Tunables, job, run_hits};
use crate::error::{Error, Result};
use crate::policy::{Instance, KERNEL_BATCH, Requests, Stats, resolve};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Cache>()?;
    module.add_class::<CacheStats>()
}

/// See `_models.pyi`.
#[pyclass(unsendable, module = "cachepilot._models")]
struct Cache {
    instance: Instance,
    /// `NAME`, or `NAME:VARIANT`.
    policy: String,
    size_pages: u64,
    batch: u32,
    seed: u64,
    /// The tunables that were set, by name. The others have the values of the policy or variant.
    given: Tunables,
    /// Values of all tunables in force.
    values: Vec<u32>,
    /// Counts of the policies before this one, and the counts of this instance when counting began.
    before: Stats,
    begun: Stats,
}

/// See `_models.pyi`.
#[pyclass(frozen, get_all, module = "cachepilot._models")]
struct CacheStats {
    requests: u64,
    misses: u64,
    evictions: u64,
    refused: u64,
    fallbacks: u64,
    rejected: u64,
    resident_pages: u64,
    ghosts: u64,
    bytes: u64,
}

#[pymethods]
impl CacheStats {
    #[getter]
    fn hits(&self) -> u64 {
        self.requests - self.misses
    }

    #[getter]
    fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }

    fn __repr__(&self) -> String {
        format!(
            "CacheStats(requests={}, misses={}, evictions={}, resident_pages={})",
            self.requests, self.misses, self.evictions, self.resident_pages
        )
    }
}

impl Cache {
    fn count(&self) -> Stats {
        let now = self.instance.stats().since(&self.begun);
        Stats {
            requests: self.before.requests + now.requests,
            misses: self.before.misses + now.misses,
            evictions: self.before.evictions + now.evictions,
            refused: self.before.refused + now.refused,
            fallbacks: self.before.fallbacks + now.fallbacks,
            rejected: self.before.rejected + now.rejected,
            ..now
        }
    }
}

/// Creates a cold instance of a policy with the `given` tunables set, and returns it with the
/// values of all tunables.
fn cold(
    policy: &str,
    size_pages: u64,
    batch: u32,
    seed: u64,
    given: &Tunables,
) -> Result<(Instance, Vec<u32>)> {
    if policy == "opt" {
        return Err(Error::argument("policy", "opt looks ahead, so it cannot go step by step"));
    }
    let job = job(&resolve(policy)?, size_pages, batch, seed, Some(given))?;
    Ok((Instance::new(job.policy, &job.config)?, job.config.tunables))
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (policy, size_pages, seed=1, batch=KERNEL_BATCH, tunables=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        policy: String,
        size_pages: u64,
        seed: u64,
        batch: u32,
        tunables: Option<Tunables>,
    ) -> PyResult<Self> {
        let given = tunables.unwrap_or_default();
        let (instance, values) = cold(&policy, size_pages, batch, seed, &given)?;
        let begun = instance.stats();
        let before = Stats::default();
        Ok(Self { instance, policy, size_pages, batch, seed, given, values, before, begun })
    }

    #[pyo3(signature = (key, task=0))]
    fn access(&mut self, key: u64, task: u32) -> PyResult<bool> {
        let mut hit = [0];
        let requests = Requests { keys: &[key], tasks: &[task], times_ns: &[] };
        self.instance.run(requests, Some(&mut hit))?;
        Ok(hit[0] != 0)
    }

    #[pyo3(signature = (keys, tasks=None))]
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        keys: &Bound<'py, PyArray1<u64>>,
        tasks: Option<&Bound<'py, PyArray1<u32>>>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        run_hits(py, &mut self.instance, keys, tasks)
    }

    fn forget(&mut self, key: u64) {
        self.instance.forget(key);
    }

    #[pyo3(signature = (policy, tunables=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn swap(&mut self, policy: String, tunables: Option<Tunables>) -> PyResult<()> {
        let given = tunables.unwrap_or_default();
        let (mut new, values) = cold(&policy, self.size_pages, self.batch, self.seed, &given)?;
        new.adopt(&self.instance.resident_keys())?;
        self.before = self.count();
        self.begun = new.stats();
        (self.instance, self.policy, self.given, self.values) = (new, policy, given, values);
        Ok(())
    }

    fn resize(&mut self, size_pages: u64) -> PyResult<()> {
        self.instance.resize(size_pages, self.batch)?;
        self.size_pages = size_pages;
        Ok(())
    }

    fn set_tunables(&mut self, tunables: Tunables) -> PyResult<()> {
        let mut given = self.given.clone();
        // An array that is set as a whole replaces elements that were set before.
        given
            .retain(|key, _| key.split('.').next().is_none_or(|name| !tunables.contains_key(name)));
        given.extend(tunables);
        let candidate = resolve(&self.policy)?;
        let job = job(&candidate, self.size_pages, self.batch, self.seed, Some(&given))?;
        let values = job.config.tunables;
        self.instance.set_tunables(&values)?;
        (self.given, self.values) = (given, values);
        Ok(())
    }

    #[getter]
    fn tunables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        let mut words = self.values.iter();
        for tunable in &resolve(&self.policy)?.policy.manifest.tunables {
            let own: Vec<u32> = words.by_ref().take(tunable.length as usize).copied().collect();
            match own.as_slice() {
                [value] => values.set_item(&tunable.name, value)?,
                _ => values.set_item(&tunable.name, own)?,
            }
        }
        Ok(values)
    }

    fn stats(&self) -> CacheStats {
        let stats = self.count();
        CacheStats {
            requests: stats.requests,
            misses: stats.misses,
            evictions: stats.evictions,
            refused: stats.refused,
            fallbacks: stats.fallbacks,
            rejected: stats.rejected,
            resident_pages: stats.resident,
            ghosts: stats.ghosts,
            bytes: stats.bytes,
        }
    }

    fn reset_stats(&mut self) {
        self.before = Stats::default();
        self.begun = self.instance.stats();
    }

    fn resident<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.instance.resident_keys().into_pyarray(py)
    }

    #[getter]
    fn policy(&self) -> &str {
        &self.policy
    }

    #[getter]
    fn size_pages(&self) -> u64 {
        self.size_pages
    }

    fn __contains__(&self, key: u64) -> bool {
        self.instance.holds(key)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.instance.stats().resident).unwrap_or(usize::MAX)
    }
}
