// SPDX-License-Identifier: Apache-2.0
//! Full simulation for Python.

use super::array::Held;
use super::options::TraceOptions;
use super::progress::Progress;
use super::source::{Source, SourceArgument};
use crate::error::{Error, Result};
use crate::opt::OptTrace;
use crate::policy::{Candidate, Instance, InstanceConfig, Requests, effective_batch, resolve};
use crate::simulation::{Job, Outcome, Simulation};
use crate::windows::{Measure, Window};
use numpy::{IntoPyArray, PyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::time::Instant;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimResult>()?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_keys, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_hits, module)?)
}

pub(super) type Tunables = HashMap<String, u32>;

/// Outcome of one policy at one size over one trace.
#[pyclass(frozen, module = "cachepilot._models")]
pub(super) struct SimResult {
    #[pyo3(get)]
    policy: String,
    #[pyo3(get)]
    size_pages: u64,
    #[pyo3(get)]
    batch: u32,
    #[pyo3(get)]
    requests: u64,
    #[pyo3(get)]
    misses: u64,
    #[pyo3(get)]
    evictions: u64,
    #[pyo3(get)]
    fallbacks: u64,
    #[pyo3(get)]
    rejected: u64,
    #[pyo3(get)]
    seconds: f64,
    #[pyo3(get)]
    bytes_per_page: f64,
    windows: Vec<Window>,
}

#[pymethods]
impl SimResult {
    #[getter]
    fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }

    fn window_requests<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.windows.iter().map(|window| window.requests).collect::<Vec<_>>().into_pyarray(py)
    }

    fn window_misses<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.windows.iter().map(|window| window.misses).collect::<Vec<_>>().into_pyarray(py)
    }

    fn __repr__(&self) -> String {
        format!(
            "SimResult(policy={:?}, size_pages={}, requests={}, misses={})",
            self.policy, self.size_pages, self.requests, self.misses
        )
    }
}

impl SimResult {
    /// Creates the result of the policy or variant of this name.
    fn new(policy: &str, outcome: &Outcome) -> Self {
        let (job, stats) = (&outcome.job, &outcome.stats);
        Self {
            policy: policy.to_owned(),
            size_pages: job.config.capacity_pages,
            batch: effective_batch(job.config.batch, job.config.capacity_pages),
            requests: stats.requests,
            misses: stats.misses,
            evictions: stats.evictions,
            fallbacks: stats.fallbacks,
            rejected: stats.rejected,
            seconds: outcome.time.as_secs_f64(),
            bytes_per_page: stats.bytes as f64 / job.config.capacity_pages as f64,
            windows: outcome.windows.clone(),
        }
    }
}

/// Returns the job for a cache of `capacity_pages` under a policy or variant, with the `given`
/// tunables set.
pub(super) fn job(
    candidate: &Candidate,
    capacity_pages: u64,
    batch: u32,
    seed: u64,
    given: Option<&Tunables>,
) -> Result<Job> {
    let given = given.into_iter().flatten().map(|(key, &value)| (key.as_str(), value.into()));
    let policy = candidate.policy;
    let tunables = candidate.values_with(given);
    let tunables = tunables.map_err(|message| Error::argument("tunable", message))?;
    Ok(Job { policy, config: InstanceConfig { capacity_pages, batch, seed, tunables } })
}

/// Simulates OPT at every size. Returns rows like those of the policies.
fn simulate_opt(
    source: &Source,
    sizes_pages: &[u64],
    measure: Measure,
    progress: &mut Progress,
) -> Result<Vec<SimResult>> {
    let mut opt = OptTrace::default();
    source.for_each(progress, |requests| opt.access(requests.keys))?;
    let row = |&size_pages: &u64| {
        let start = Instant::now();
        let (all, windows, warm) = opt.measured(size_pages, measure)?;
        // The cache starts empty. Its first misses fill it, beginning with those of the warm-up,
        // and evict nothing.
        let filling = size_pages.saturating_sub(warm);
        Ok(SimResult {
            policy: "opt".into(),
            size_pages,
            batch: 1,
            requests: all.requests,
            misses: all.misses,
            evictions: all.misses.saturating_sub(filling),
            fallbacks: 0,
            rejected: 0,
            seconds: start.elapsed().as_secs_f64(),
            bytes_per_page: 0.0,
            windows,
        })
    };
    sizes_pages.iter().map(row).collect()
}

#[pyfunction]
#[pyo3(signature = (source, policies, sizes_pages, batch=32, seed=1, tunables=None, options=None,
                    warmup_requests=0, window_requests=None, threads=0, progress=None))]
#[allow(clippy::too_many_arguments)]
fn simulate(
    py: Python<'_>,
    source: SourceArgument<'_>,
    policies: Vec<String>,
    sizes_pages: Vec<u64>,
    batch: u32,
    seed: u64,
    tunables: Option<HashMap<String, Tunables>>,
    options: Option<TraceOptions>,
    warmup_requests: u64,
    window_requests: Option<u64>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<SimResult>> {
    let (mut jobs, mut names) = (Vec::new(), Vec::new());
    for name in policies.iter().filter(|name| *name != "opt") {
        let candidate = resolve(name)?;
        let given = tunables.as_ref().and_then(|t| t.get(name));
        for &size in &sizes_pages {
            jobs.push(job(&candidate, size, batch, seed, given)?);
            names.push(name);
        }
    }
    let source = source.held(options)?;
    let measure = Measure { warmup_requests, window_requests };
    let mut progress = Progress::new(progress);
    let result = py.detach(|| {
        let mut rows: Vec<SimResult> = Vec::new();
        if !jobs.is_empty() {
            let mut simulation = Simulation::new(&jobs, threads, measure)?;
            source.for_each(&mut progress, |requests| simulation.run(requests))?;
            let outcomes = simulation.outcomes()?;
            let named = names.iter().zip(&outcomes);
            rows.extend(named.map(|(name, one)| SimResult::new(name, one)));
        }
        for (at, _) in policies.iter().enumerate().filter(|(_, name)| *name == "opt") {
            let opt = simulate_opt(&source, &sizes_pages, measure, &mut progress)?;
            let position = at * sizes_pages.len();
            rows.splice(position..position, opt);
        }
        Ok(rows)
    });
    progress.finish(result)
}

/// Keeps the arrays of keys and, if known, of tasks alive. Returns an error if their lengths
/// differ.
fn held(
    keys: &Bound<'_, PyArray1<u64>>,
    tasks: Option<&Bound<'_, PyArray1<u32>>>,
) -> PyResult<(Held<u64>, Option<Held<u32>>)> {
    let (keys, tasks) = (Held::new(keys)?, tasks.map(Held::new).transpose()?);
    match &tasks {
        Some(tasks) if tasks.len() != keys.len() => {
            Err(Error::argument("tasks", "not as long as keys").into())
        }
        _ => Ok((keys, tasks)),
    }
}

/// Runs an array of keys through an instance. `hits` has one byte per request.
pub(super) fn run_keys(
    py: Python<'_>,
    instance: &mut Instance,
    keys: &Bound<'_, PyArray1<u64>>,
    tasks: Option<&Bound<'_, PyArray1<u32>>>,
    mut hits: Option<&mut [u8]>,
) -> PyResult<()> {
    let (keys, tasks) = held(keys, tasks)?;
    py.detach(|| {
        keys.for_each_pair(tasks.as_ref(), |from, keys, tasks| {
            let hits = hits.as_mut().map(|hits| &mut hits[from..from + keys.len()]);
            instance.run(Requests { keys, tasks, times_ns: &[] }, hits)
        })
    })?;
    Ok(())
}

#[pyfunction]
#[pyo3(signature = (keys, policy, size_pages, batch=32, seed=1, tasks=None, tunables=None))]
#[allow(clippy::too_many_arguments)]
fn simulate_keys(
    py: Python<'_>,
    keys: &Bound<'_, PyArray1<u64>>,
    policy: &str,
    size_pages: u64,
    batch: u32,
    seed: u64,
    tasks: Option<&Bound<'_, PyArray1<u32>>>,
    tunables: Option<Tunables>,
) -> PyResult<SimResult> {
    let job = job(&resolve(policy)?, size_pages, batch, seed, tunables.as_ref())?;
    let mut instance = Instance::new(job.policy, &job.config)?;
    let start = Instant::now();
    run_keys(py, &mut instance, keys, tasks, None)?;
    let (stats, time) = (instance.stats(), start.elapsed());
    Ok(SimResult::new(policy, &Outcome { job, stats, windows: Vec::new(), time }))
}

#[pyfunction]
#[pyo3(signature = (keys, policy, size_pages, batch=32, seed=1, tasks=None, tunables=None,
    refused_per_million=0))]
#[allow(clippy::too_many_arguments)]
fn simulate_hits<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyArray1<u64>>,
    policy: &str,
    size_pages: u64,
    batch: u32,
    seed: u64,
    tasks: Option<&Bound<'_, PyArray1<u32>>>,
    tunables: Option<Tunables>,
    refused_per_million: u32,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let job = job(&resolve(policy)?, size_pages, batch, seed, tunables.as_ref())?;
    let mut instance = Instance::new(job.policy, &job.config)?;
    instance.set_refusals(refused_per_million);
    run_hits(py, &mut instance, keys, tasks)
}

/// Serves requests, and returns which of them hit.
pub(super) fn run_hits<'py>(
    py: Python<'py>,
    instance: &mut Instance,
    keys: &Bound<'py, PyArray1<u64>>,
    tasks: Option<&Bound<'_, PyArray1<u32>>>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let mut hits = vec![0; keys.len()];
    run_keys(py, instance, keys, tasks, Some(&mut hits))?;
    let hits: Vec<bool> = hits.into_iter().map(|hit| hit != 0).collect();
    Ok(hits.into_pyarray(py))
}
