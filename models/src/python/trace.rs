// SPDX-License-Identifier: Apache-2.0
//! Traces for Python.

use super::options::TraceOptions;
use super::progress::Progress;
use crate::error::Result;
use crate::synthetic::{Component, Workload, generate};
use crate::trace::{Chunk, TraceInfo, TraceReader, convert, info_with_progress, open};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::path::Path;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_info_json, module)?)?;
    module.add_function(wrap_pyfunction!(trace_footprint, module)?)?;
    module.add_function(wrap_pyfunction!(trace_head_json, module)?)?;
    module.add_function(wrap_pyfunction!(trace_keys, module)?)?;
    module.add_function(wrap_pyfunction!(trace_convert, module)?)?;
    module.add_function(wrap_pyfunction!(trace_generate, module)?)?;
    module.add_function(wrap_pyfunction!(synthetic_keys, module)?)
}

fn info(
    py: Python<'_>,
    path: &str,
    options: Option<TraceOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<TraceInfo> {
    let (mut progress, options) = (Progress::new(progress), options.unwrap_or_default());
    let result = py.detach(|| {
        let report = &mut |share| progress.report(share);
        info_with_progress(Path::new(path), &(&options).into(), report)
    });
    progress.finish(result)
}

#[pyfunction]
#[pyo3(signature = (path, options=None, progress=None))]
fn trace_info_json(
    py: Python<'_>,
    path: &str,
    options: Option<TraceOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let info = info(py, path, options, progress)?;
    serde_json::to_string(&info).map_err(|e| super::ModelsError::new_err(e.to_string()))
}

#[pyfunction]
#[pyo3(signature = (path, options=None, progress=None))]
fn trace_footprint(
    py: Python<'_>,
    path: &str,
    options: Option<TraceOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u64)> {
    let info = info(py, path, options, progress)?;
    Ok((info.requests, info.distinct_pages))
}

/// Returns the requests of a trace until at least `limit` have been read. The list of keys is cut
/// to `limit`; the other columns may be longer.
fn head(path: &str, options: Option<TraceOptions>, limit: usize) -> Result<Chunk> {
    let options = options.unwrap_or_default();
    let mut reader: Box<dyn TraceReader> = open(Path::new(path), &(&options).into())?;
    let mut all = Chunk::default();
    let mut chunk = Chunk::default();
    while all.keys.len() < limit {
        reader.next_chunk(&mut chunk)?;
        if chunk.keys.is_empty() {
            break;
        }
        all.keys.append(&mut chunk.keys);
        all.tasks.append(&mut chunk.tasks);
        all.times_ns.append(&mut chunk.times_ns);
    }
    all.keys.truncate(limit);
    Ok(all)
}

#[pyfunction]
#[pyo3(signature = (path, count, options=None))]
fn trace_head_json(
    py: Python<'_>,
    path: &str,
    count: usize,
    options: Option<TraceOptions>,
) -> PyResult<String> {
    let chunk = py.detach(|| head(path, options, count))?;
    let row = |(i, key): (usize, &u64)| {
        serde_json::json!({
            "request": i,
            "key": key,
            "task": chunk.tasks.get(i),
            "time_ns": chunk.times_ns.get(i),
        })
    };
    let rows: Vec<_> = chunk.keys.iter().enumerate().map(row).collect();
    Ok(serde_json::Value::from(rows).to_string())
}

#[pyfunction]
#[pyo3(signature = (path, limit=None, options=None))]
fn trace_keys<'py>(
    py: Python<'py>,
    path: &str,
    limit: Option<usize>,
    options: Option<TraceOptions>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let chunk = py.detach(|| head(path, options, limit.unwrap_or(usize::MAX)))?;
    Ok(chunk.keys.into_pyarray(py))
}

#[pyfunction]
#[pyo3(signature = (source, target, options=None, progress=None))]
fn trace_convert(
    py: Python<'_>,
    source: &str,
    target: &str,
    options: Option<TraceOptions>,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let (mut progress, options) = (Progress::new(progress), options.unwrap_or_default());
    let (source, target) = (Path::new(source), Path::new(target));
    let result = py.detach(|| {
        convert(source, target, &(&options).into(), &mut |share| progress.report(share))
    });
    progress.finish(result)
}

fn components(mix: &[String]) -> Result<Vec<Component>> {
    mix.iter().map(|text| text.parse()).collect()
}

#[pyfunction]
#[pyo3(signature = (target, mix, requests, seed=1, progress=None))]
#[allow(clippy::needless_pass_by_value)]
fn trace_generate(
    py: Python<'_>,
    target: &str,
    mix: Vec<String>,
    requests: u64,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let components = components(&mix)?;
    let mut progress = Progress::new(progress);
    let result = py.detach(|| {
        let report = &mut |share| progress.report(share);
        generate(&components, requests, seed, Path::new(target), report)
    });
    progress.finish(result)
}

#[pyfunction]
#[pyo3(signature = (mix, requests, seed=1))]
#[allow(clippy::needless_pass_by_value)]
fn synthetic_keys(
    py: Python<'_>,
    mix: Vec<String>,
    requests: usize,
    seed: u64,
) -> PyResult<Bound<'_, PyArray1<u64>>> {
    let mut workload = Workload::new(&components(&mix)?, seed)?;
    let keys: Vec<u64> = py.detach(|| (0..requests).map(|_| workload.next_key()).collect());
    Ok(keys.into_pyarray(py))
}
