// SPDX-License-Identifier: Apache-2.0
//! Full simulation seen from Python.

use super::progress::Progress;
use super::source::{Source, SourceArgument};
use crate::error::{Error, Result};
use crate::opt::OptTrace;
use crate::policy::{Candidate, Instance, InstanceConfig, Requests, effective_batch, resolve};
use crate::simulation::{Job, Outcome, Simulation};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::time::Instant;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimResult>()?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_keys, module)?)?;
    module.add_function(wrap_pyfunction!(simulate_hits, module)?)
}

type Tunables = HashMap<String, u32>;

/// Outcome of one policy at one size over one trace.
#[pyclass(frozen, get_all, module = "cachepilot._models")]
pub(super) struct SimResult {
    policy: String,
    size_pages: u64,
    batch: u32,
    requests: u64,
    misses: u64,
    evictions: u64,
    fallbacks: u64,
    rejected: u64,
    seconds: f64,
    bytes_per_page: f64,
}

#[pymethods]
impl SimResult {
    #[getter]
    fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests.max(1) as f64
    }

    fn __repr__(&self) -> String {
        format!(
            "SimResult(policy={:?}, size_pages={}, requests={}, misses={})",
            self.policy, self.size_pages, self.requests, self.misses
        )
    }
}

impl SimResult {
    /// What became of the policy or variant of this name.
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
        }
    }
}

/// A cache of `capacity_pages` under a policy or variant, with these of its tunables set.
fn job(
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

/// OPT at every size, as rows like those of the policies.
fn simulate_opt(
    source: Source<'_>,
    sizes_pages: &[u64],
    progress: &mut Progress,
) -> Result<Vec<SimResult>> {
    let mut opt = OptTrace::default();
    source.for_each(progress, |requests| opt.access(requests.keys))?;
    let row = |&size_pages: &u64| {
        let start = Instant::now();
        let curve = opt.curve(&[size_pages])?;
        let misses = (curve.miss_ratio[0] * curve.requests as f64).round() as u64;
        Ok(SimResult {
            policy: "opt".into(),
            size_pages,
            batch: 1,
            requests: curve.requests,
            misses,
            evictions: misses.saturating_sub(size_pages.min(opt.footprint_pages())),
            fallbacks: 0,
            rejected: 0,
            seconds: start.elapsed().as_secs_f64(),
            bytes_per_page: 0.0,
        })
    };
    sizes_pages.iter().map(row).collect()
}

#[pyfunction]
#[pyo3(signature = (source, policies, sizes_pages, batch=32, seed=1, tunables=None, column=None,
                    threads=0, progress=None))]
#[allow(clippy::too_many_arguments)]
fn simulate(
    py: Python<'_>,
    source: SourceArgument<'_>,
    policies: Vec<String>,
    sizes_pages: Vec<u64>,
    batch: u32,
    seed: u64,
    tunables: Option<HashMap<String, Tunables>>,
    column: Option<&str>,
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
    let source = source.borrow(column)?;
    let mut progress = Progress::new(progress);
    let result = py.detach(|| {
        let mut rows: Vec<SimResult> = Vec::new();
        if !jobs.is_empty() {
            let mut simulation = Simulation::new(&jobs, threads)?;
            source.for_each(&mut progress, |requests| simulation.run(requests))?;
            let outcomes = simulation.outcomes();
            rows.extend(names.iter().zip(&outcomes).map(|(name, one)| SimResult::new(name, one)));
        }
        for (at, _) in policies.iter().enumerate().filter(|(_, name)| *name == "opt") {
            let opt = simulate_opt(source, &sizes_pages, &mut progress)?;
            let position = at * sizes_pages.len();
            rows.splice(position..position, opt);
        }
        Ok(rows)
    });
    progress.finish(result)
}

/// Runs an array of keys; `hits` has a byte per request.
fn run_keys(
    py: Python<'_>,
    keys: &PyReadonlyArray1<'_, u64>,
    tasks: Option<&PyReadonlyArray1<'_, u32>>,
    job: &Job,
    refused_per_million: u32,
    mut hits: Option<&mut [u8]>,
) -> PyResult<Outcome> {
    let contiguous = |e: numpy::AsSliceError| super::ModelsError::new_err(e.to_string());
    let keys = keys.as_slice().map_err(contiguous)?;
    let tasks = tasks.map_or(Ok(&[][..]), |t| t.as_slice().map_err(contiguous))?;
    if !tasks.is_empty() && tasks.len() != keys.len() {
        return Err(Error::argument("tasks", "not as long as keys").into());
    }
    let outcome = py.detach(|| {
        let mut instance = Instance::new(job.policy, &job.config)?;
        instance.set_refusals(refused_per_million);
        let start = Instant::now();
        instance.run(Requests { keys, tasks, times_ns: &[] }, hits.take())?;
        Ok::<_, Error>(Outcome { job: job.clone(), stats: instance.stats(), time: start.elapsed() })
    });
    Ok(outcome?)
}

#[pyfunction]
#[pyo3(signature = (keys, policy, size_pages, batch=32, seed=1, tasks=None, tunables=None))]
#[allow(clippy::too_many_arguments)]
fn simulate_keys(
    py: Python<'_>,
    keys: PyReadonlyArray1<'_, u64>,
    policy: &str,
    size_pages: u64,
    batch: u32,
    seed: u64,
    tasks: Option<PyReadonlyArray1<'_, u32>>,
    tunables: Option<Tunables>,
) -> PyResult<SimResult> {
    let job = job(&resolve(policy)?, size_pages, batch, seed, tunables.as_ref())?;
    Ok(SimResult::new(policy, &run_keys(py, &keys, tasks.as_ref(), &job, 0, None)?))
}

#[pyfunction]
#[pyo3(signature = (keys, policy, size_pages, batch=32, seed=1, tasks=None, tunables=None,
    refused_per_million=0))]
#[allow(clippy::too_many_arguments)]
fn simulate_hits<'py>(
    py: Python<'py>,
    keys: PyReadonlyArray1<'_, u64>,
    policy: &str,
    size_pages: u64,
    batch: u32,
    seed: u64,
    tasks: Option<PyReadonlyArray1<'_, u32>>,
    tunables: Option<Tunables>,
    refused_per_million: u32,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let job = job(&resolve(policy)?, size_pages, batch, seed, tunables.as_ref())?;
    let mut hits = vec![0; keys.len()?];
    run_keys(py, &keys, tasks.as_ref(), &job, refused_per_million, Some(&mut hits))?;
    let hits: Vec<bool> = hits.into_iter().map(|hit| hit != 0).collect();
    Ok(hits.into_pyarray(py))
}
