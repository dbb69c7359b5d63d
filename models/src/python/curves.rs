// SPDX-License-Identifier: Apache-2.0
//! Miss ratio curves for Python.

use super::array::Held;
use super::options::TraceOptions;
use super::progress::Progress;
use super::source::{Source, SourceArgument};
use crate::curve::Curve;
use crate::error::{Error, Result};
use crate::exact::ExactLru;
use crate::hash::page_hash;
use crate::minisim::{Bank, BankConfig, Sampling};
use crate::opt::OptTrace;
use crate::policy::{Candidate, InstanceConfig, resolve};
use crate::shards::{FixedRateShards, FixedSizeShards, Options};
use crate::simulation::{Job, Outcome, Simulation};
use crate::stack_distance::LruStack;
use crate::windows::Measure;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::time::Instant;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCurve>()?;
    module.add_function(wrap_pyfunction!(mrc_exact, module)?)?;
    module.add_function(wrap_pyfunction!(mrc_shards, module)?)?;
    module.add_function(wrap_pyfunction!(mrc_minisim, module)?)?;
    module.add_function(wrap_pyfunction!(stack_distances, module)?)?;
    module.add_function(wrap_pyfunction!(size_grid, module)?)
}

/// A curve with its policy and method. The arrays are created once and shared with Python.
#[pyclass(frozen, name = "Curve", module = "cachepilot._models")]
pub(super) struct PyCurve {
    #[pyo3(get)]
    policy: String,
    #[pyo3(get)]
    method: &'static str,
    #[pyo3(get)]
    seconds: f64,
    #[pyo3(get)]
    rate: f64,
    #[pyo3(get)]
    requests: u64,
    #[pyo3(get)]
    sampled: u64,
    #[pyo3(get)]
    sizes_pages: Py<PyArray1<u64>>,
    #[pyo3(get)]
    miss_ratio: Py<PyArray1<f64>>,
    #[pyo3(get)]
    stderr: Py<PyArray1<f64>>,
    error_bar: Py<PyArray1<f64>>,
}

#[pymethods]
impl PyCurve {
    fn error_bar<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.error_bar.bind(py).clone()
    }
}

impl PyCurve {
    fn new(py: Python<'_>, policy: &str, method: &'static str, curve: Curve, seconds: f64) -> Self {
        let bars: Vec<f64> = (0..curve.miss_ratio.len()).map(|i| curve.error_bar(i)).collect();
        Self {
            policy: policy.into(),
            method,
            seconds,
            rate: curve.rate,
            requests: curve.requests,
            sampled: curve.sampled,
            sizes_pages: curve.sizes_pages.into_pyarray(py).unbind(),
            miss_ratio: curve.miss_ratio.into_pyarray(py).unbind(),
            stderr: curve.stderr.into_pyarray(py).unbind(),
            error_bar: bars.into_pyarray(py).unbind(),
        }
    }
}

fn exact_lru(source: &Source, sizes_pages: &[u64], progress: &mut Progress) -> Result<Curve> {
    let mut exact = ExactLru::new(None)?;
    source.for_each(progress, |requests| {
        exact.access(requests.keys);
        Ok(())
    })?;
    exact.curve(sizes_pages)
}

fn exact_opt(source: &Source, sizes_pages: &[u64], progress: &mut Progress) -> Result<Curve> {
    let mut opt = OptTrace::default();
    source.for_each(progress, |requests| opt.access(requests.keys))?;
    opt.curve(sizes_pages)
}

/// Runs a full simulation of the policies. Returns a curve and the seconds spent for each policy.
fn simulated(
    source: &Source,
    sizes_pages: &[u64],
    policies: &[Candidate],
    (batch, seed, threads): (u32, u64, usize),
    progress: &mut Progress,
) -> Result<Vec<(Curve, f64)>> {
    let job = |candidate: &Candidate, &capacity_pages: &u64| Job {
        policy: candidate.policy,
        config: InstanceConfig {
            capacity_pages,
            batch,
            seed,
            tunables: candidate.tunables.clone(),
        },
    };
    let jobs: Vec<Job> =
        policies.iter().flat_map(|p| sizes_pages.iter().map(move |s| job(p, s))).collect();
    let mut simulation = Simulation::new(&jobs, threads, Measure::default())?;
    source.for_each(progress, |requests| simulation.run(requests))?;
    let outcomes = simulation.outcomes()?;
    let curve = |rows: &[Outcome]| {
        let requests = rows.first().map_or(0, |r| r.stats.requests);
        let curve = Curve {
            sizes_pages: sizes_pages.to_vec(),
            miss_ratio: rows.iter().map(|r| r.miss_ratio()).collect(),
            stderr: vec![0.0; rows.len()],
            step_stderr: vec![0.0; rows.len()],
            requests,
            sampled: requests,
            rate: 1.0,
        };
        (curve, rows.iter().map(|r| r.time.as_secs_f64()).sum())
    };
    Ok(outcomes.chunks(sizes_pages.len()).map(curve).collect())
}

fn sizes(array: &Bound<'_, PyArray1<u64>>) -> PyResult<Vec<u64>> {
    let sizes = Held::new(array)?.to_vec()?;
    match sizes.contains(&0) || sizes.is_empty() {
        true => {
            Err(Error::argument("sizes_pages", "must be one or more sizes of 1.. pages").into())
        }
        false => Ok(sizes),
    }
}

#[pyfunction]
#[pyo3(signature = (source, sizes_pages, policies, batch=32, seed=1, options=None, threads=0,
                    progress=None))]
#[allow(clippy::too_many_arguments)]
fn mrc_exact(
    py: Python<'_>,
    source: SourceArgument<'_>,
    sizes_pages: &Bound<'_, PyArray1<u64>>,
    policies: Vec<String>,
    batch: u32,
    seed: u64,
    options: Option<TraceOptions>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<PyCurve>> {
    let source = source.held(options)?;
    let sizes_pages = sizes(sizes_pages)?;
    let others: Vec<&str> =
        policies.iter().map(String::as_str).filter(|n| !matches!(*n, "lru" | "opt")).collect();
    let found = others.iter().map(|name| resolve(name)).collect::<Result<Vec<_>>>()?;
    let mut progress = Progress::new(progress);
    let result = py.detach(|| {
        let mut simulated_curves = match found.is_empty() {
            true => Vec::new(),
            false => {
                simulated(&source, &sizes_pages, &found, (batch, seed, threads), &mut progress)?
            }
        }
        .into_iter();
        let mut curves = Vec::new();
        for name in &policies {
            let start = Instant::now();
            let curve = match name.as_str() {
                "lru" => Some((
                    exact_lru(&source, &sizes_pages, &mut progress)?,
                    start.elapsed().as_secs_f64(),
                )),
                "opt" => Some((
                    exact_opt(&source, &sizes_pages, &mut progress)?,
                    start.elapsed().as_secs_f64(),
                )),
                _ => simulated_curves.next(),
            };
            curves.extend(curve.map(|(curve, seconds)| (name, curve, seconds)));
        }
        Ok(curves)
    });
    let curves = progress.finish(result)?;
    Ok(curves.into_iter().map(|(name, c, s)| PyCurve::new(py, name, "exact", c, s)).collect())
}

#[pyfunction]
#[pyo3(signature = (source, sizes_pages, rate=None, smax=None, half_life=None, options=None,
                    progress=None))]
#[allow(clippy::too_many_arguments)]
fn mrc_shards(
    py: Python<'_>,
    source: SourceArgument<'_>,
    sizes_pages: &Bound<'_, PyArray1<u64>>,
    rate: Option<f64>,
    smax: Option<usize>,
    half_life: Option<f64>,
    options: Option<TraceOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyCurve> {
    let source = source.held(options)?;
    let sizes_pages = sizes(sizes_pages)?;
    let options = Options { seed: 0, half_life: checked_half_life(half_life)? };
    let sampling = sampling(rate, smax)?;
    let mut progress = Progress::new(progress);
    let start = Instant::now();
    let result = py.detach(|| shards(&source, &sizes_pages, sampling, options, &mut progress));
    let curve = progress.finish(result)?;
    Ok(PyCurve::new(py, "lru", "shards", curve, start.elapsed().as_secs_f64()))
}

fn shards(
    source: &Source,
    sizes_pages: &[u64],
    sampling: Sampling,
    options: Options,
    progress: &mut Progress,
) -> Result<Curve> {
    match sampling {
        Sampling::Rate(rate) => {
            let mut shards = FixedRateShards::new(rate, options)?;
            source.for_each(progress, |requests| {
                shards.access(requests.keys);
                Ok(())
            })?;
            shards.curve(sizes_pages)
        }
        Sampling::Size(s_max) => {
            let mut shards = FixedSizeShards::new(s_max, options)?;
            source.for_each(progress, |requests| {
                shards.access(requests.keys);
                Ok(())
            })?;
            shards.curve(sizes_pages)
        }
    }
}

fn sampling(rate: Option<f64>, smax: Option<usize>) -> Result<Sampling> {
    match (rate, smax) {
        (Some(rate), None) => Ok(Sampling::Rate(rate)),
        (None, Some(smax)) => Ok(Sampling::Size(smax)),
        _ => Err(Error::argument("rate", "give either a rate in (0, 1] or smax, not both")),
    }
}

fn checked_half_life(half_life: Option<f64>) -> Result<Option<u64>> {
    match half_life {
        None => Ok(None),
        Some(accesses) if (1.0..1e18).contains(&accesses) => Ok(Some(accesses as u64)),
        Some(accesses) => {
            Err(Error::argument("half_life", format!("{accesses} accesses are not in 1..1e18")))
        }
    }
}

#[pyfunction]
#[pyo3(signature = (source, sizes_pages, policies, rate=None, smax=None, half_life=None, seed=1,
                    options=None, threads=0, progress=None))]
#[allow(clippy::too_many_arguments)]
fn mrc_minisim(
    py: Python<'_>,
    source: SourceArgument<'_>,
    sizes_pages: &Bound<'_, PyArray1<u64>>,
    policies: Vec<String>,
    rate: Option<f64>,
    smax: Option<usize>,
    half_life: Option<f64>,
    seed: u64,
    options: Option<TraceOptions>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<PyCurve>> {
    let config = BankConfig {
        policies: policies.iter().map(|name| resolve(name)).collect::<Result<Vec<_>>>()?,
        sizes_pages: sizes(sizes_pages)?,
        sampling: sampling(rate, smax)?,
        half_life: checked_half_life(half_life)?,
        seed,
        threads,
    };
    let source = source.held(options)?;
    let mut progress = Progress::new(progress);
    let start = Instant::now();
    let result = py.detach(|| {
        let mut bank = Bank::new(config)?;
        source.for_each(&mut progress, |requests| bank.access(requests))?;
        bank.curves()
    });
    let curves = progress.finish(result)?;
    let seconds = start.elapsed().as_secs_f64();
    let named = policies.iter().zip(curves);
    Ok(named.map(|(name, c)| PyCurve::new(py, name, "minisim", c, seconds)).collect())
}

/// Largest number of points of a grid.
const MAX_POINTS: usize = 1_000_000;

/// Number of accesses per block of distances. It keeps the hashes in the processor's caches.
const DISTANCE_BLOCK: usize = 1024;

#[pyfunction]
fn stack_distances<'py>(
    py: Python<'py>,
    keys: &Bound<'py, PyArray1<u64>>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let keys = Held::new(keys)?;
    let distances = py.detach(|| {
        let mut stack = LruStack::default();
        let mut distances = vec![0; keys.len()];
        let mut hashes = Vec::with_capacity(DISTANCE_BLOCK);
        keys.for_each_piece(|from, piece| {
            let out = &mut distances[from..from + piece.len()];
            for (keys, out) in piece.chunks(DISTANCE_BLOCK).zip(out.chunks_mut(DISTANCE_BLOCK)) {
                hashes.clear();
                hashes.extend(keys.iter().map(|&key| page_hash(key)));
                stack.access_all(&hashes, out);
            }
            Ok(())
        })?;
        Ok::<_, Error>(distances)
    })?;
    Ok(distances.into_pyarray(py))
}

#[pyfunction]
fn size_grid(
    py: Python<'_>,
    footprint_pages: u64,
    points: usize,
) -> PyResult<Bound<'_, PyArray1<u64>>> {
    if !(1..=MAX_POINTS).contains(&points) {
        let message = format!("{points} is not in 1..={MAX_POINTS}");
        return Err(Error::argument("points", message).into());
    }
    Ok(crate::curve::size_grid(footprint_pages, points).into_pyarray(py))
}
