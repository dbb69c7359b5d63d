// SPDX-License-Identifier: Apache-2.0
//! Readahead policies for Python.

use super::array::Held;
use super::progress::Progress;
use crate::error::{Error, Result};
use crate::policy::{InstanceConfig, policy_of, resolve};
use crate::prefetch::{
    self, Access, Ahead, FilePages, PrefetchConfig, PrefetchJob, PrefetchStats, Simulator,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ReadaheadResult>()?;
    module.add_class::<ReadaheadCache>()?;
    module.add_function(wrap_pyfunction!(readahead_policies_json, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_readahead, module)?)
}

/// Number of pages of the largest read: 1 GiB.
const MAX_CALL_PAGES: u64 = 1 << 18;

type Tunables = HashMap<String, u32>;

#[pyfunction]
fn readahead_policies_json() -> &'static str {
    prefetch::manifests_json()
}

/// What one readahead policy did.
#[pyclass(frozen, get_all, module = "cachepilot._models")]
struct ReadaheadResult {
    policy: String,
    eviction: String,
    size_pages: u64,
    reads: u64,
    writes: u64,
    misses: u64,
    miss_ratio: f64,
    waits: u64,
    disk_reads: u64,
    disk_pages: u64,
    ahead_pages: u64,
    used_pages: u64,
    wasted_pages: u64,
    pending_pages: u64,
    own_ahead_pages: u64,
    own_used_pages: u64,
    own_wasted_pages: u64,
    own_pending_pages: u64,
    asked: u64,
    declined: u64,
    seconds: f64,
}

#[pymethods]
impl ReadaheadResult {
    fn __repr__(&self) -> String {
        format!(
            "ReadaheadResult(policy={:?}, eviction={:?}, size_pages={}, reads={}, misses={})",
            self.policy, self.eviction, self.size_pages, self.reads, self.misses
        )
    }
}

impl ReadaheadResult {
    fn new(machine: &Machine, policy: &str, stats: &PrefetchStats, time: Duration) -> Self {
        let Ahead { pages, used, wasted, pending } = stats.ahead;
        Self {
            policy: policy.to_owned(),
            eviction: machine.eviction.clone(),
            size_pages: machine.size_pages,
            reads: stats.reads,
            writes: stats.writes,
            misses: stats.misses,
            miss_ratio: stats.miss_ratio(),
            waits: stats.waits,
            disk_reads: stats.disk_reads,
            disk_pages: stats.disk_pages,
            ahead_pages: pages,
            used_pages: used,
            wasted_pages: wasted,
            pending_pages: pending,
            own_ahead_pages: stats.own.pages,
            own_used_pages: stats.own.used,
            own_wasted_pages: stats.own.wasted,
            own_pending_pages: stats.own.pending,
            asked: stats.asked,
            declined: stats.declined,
            seconds: time.as_secs_f64(),
        }
    }
}

/// The parameters of a simulation that all policies share.
struct Machine {
    eviction: String,
    size_pages: u64,
    batch: u32,
    seed: u64,
    max_window_pages: u32,
}

impl Machine {
    fn job(
        &self,
        name: &str,
        file_pages: FilePages,
        given: Option<&Tunables>,
    ) -> Result<PrefetchJob> {
        let policy = prefetch::find(policy_of(name))?;
        let refuse = |message| Error::argument("tunable", message);
        let values = policy.manifest.values_of(name).map_err(refuse)?;
        let eviction = resolve(&self.eviction)?;
        let given = given.into_iter().flatten().map(|(key, &value)| (key.as_str(), value.into()));
        let tunables = policy.manifest.with_tunables(values, given).map_err(refuse)?;
        let cache = InstanceConfig {
            capacity_pages: self.size_pages,
            batch: self.batch,
            seed: self.seed,
            tunables: eviction.tunables.clone(),
        };
        let config = PrefetchConfig {
            eviction,
            cache,
            max_window_pages: self.max_window_pages,
            file_pages,
            tunables,
        };
        Ok(PrefetchJob { policy, config })
    }
}

#[pyfunction]
#[pyo3(signature = (path, policies, eviction, size_pages, max_window_pages=32, batch=32, seed=1,
                    tunables=None, threads=0, progress=None))]
#[allow(clippy::too_many_arguments)]
fn simulate_readahead(
    py: Python<'_>,
    path: &str,
    policies: Vec<String>,
    eviction: String,
    size_pages: u64,
    max_window_pages: u32,
    batch: u32,
    seed: u64,
    tunables: Option<HashMap<String, Tunables>>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<ReadaheadResult>> {
    let machine = Machine { eviction, size_pages, batch, seed, max_window_pages };
    let mut progress = Progress::new(progress);
    let path = Path::new(path);
    let result = py.detach(|| {
        // There are two passes over the trace, and the first is the faster one.
        let sizes = prefetch::file_sizes(path, &mut |share| progress.report(share * 0.2))?;
        let job = |name: &String| {
            let given = tunables.as_ref().and_then(|all| all.get(name));
            machine.job(name, sizes.clone(), given)
        };
        let jobs = policies.iter().map(job).collect::<Result<Vec<_>>>()?;
        let report = &mut |share| progress.report(0.2 + share * 0.8);
        let outcomes = prefetch::simulate(path, &jobs, threads, report)?;
        let rows = policies.iter().zip(&outcomes);
        let row = |(name, one): (&String, &prefetch::PrefetchOutcome)| {
            ReadaheadResult::new(&machine, name, &one.stats, one.time)
        };
        Ok(rows.map(row).collect())
    });
    progress.finish(result)
}

/// See `_models.pyi`.
#[pyclass(unsendable, module = "cachepilot._models")]
struct ReadaheadCache {
    simulator: Simulator,
    machine: Machine,
    policy: String,
    time: Duration,
}

#[pymethods]
impl ReadaheadCache {
    #[new]
    #[pyo3(signature = (policy, eviction, size_pages, file_pages, max_window_pages=32, batch=32,
                        seed=1, tunables=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        policy: String,
        eviction: String,
        size_pages: u64,
        file_pages: u64,
        max_window_pages: u32,
        batch: u32,
        seed: u64,
        tunables: Option<Tunables>,
    ) -> PyResult<Self> {
        let machine = Machine { eviction, size_pages, batch, seed, max_window_pages };
        let job = machine.job(&policy, FilePages::Every(file_pages), tunables.as_ref())?;
        let simulator = Simulator::new(job.policy, job.config)?;
        Ok(Self { simulator, machine, policy, time: Duration::ZERO })
    }

    #[pyo3(signature = (indices, file=1, task=0, pages=1))]
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        indices: &Bound<'_, PyArray1<u64>>,
        file: u64,
        task: u32,
        pages: u64,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let indices = Held::new(indices)?;
        if !(1..=MAX_CALL_PAGES).contains(&pages) {
            let message = format!("{pages} is not in 1..={MAX_CALL_PAGES}");
            return Err(Error::argument("pages", message).into());
        }
        let (simulator, start) = (&mut self.simulator, Instant::now());
        let mut hits = Vec::with_capacity(indices.len());
        py.detach(|| {
            indices.for_each_piece(|_, piece| {
                for &index in piece {
                    let access = Access { file, index, pages, task, ..Access::default() };
                    hits.push(simulator.access(access)?);
                }
                Ok(())
            })
        })?;
        self.time += start.elapsed();
        Ok(hits.into_pyarray(py))
    }

    fn result(&self) -> ReadaheadResult {
        ReadaheadResult::new(&self.machine, &self.policy, &self.simulator.stats(), self.time)
    }
}
