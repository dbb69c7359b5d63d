// SPDX-License-Identifier: Apache-2.0
//! Traces seen from Python.

use super::progress::Progress;
use crate::error::Result;
use crate::trace::{Chunk, OpenOptions, TraceReader, convert, info_with_progress, open};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::path::Path;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_info_json, module)?)?;
    module.add_function(wrap_pyfunction!(trace_footprint, module)?)?;
    module.add_function(wrap_pyfunction!(trace_head_json, module)?)?;
    module.add_function(wrap_pyfunction!(trace_keys, module)?)?;
    module.add_function(wrap_pyfunction!(trace_convert, module)?)
}

fn options(column: Option<&str>) -> OpenOptions<'_> {
    OpenOptions { column }
}

fn info(
    py: Python<'_>,
    path: &str,
    column: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<crate::trace::TraceInfo> {
    let mut progress = Progress::new(progress);
    let result = py.detach(|| {
        info_with_progress(Path::new(path), &options(column), &mut |share| progress.report(share))
    });
    progress.finish(result)
}

#[pyfunction]
#[pyo3(signature = (path, column=None, progress=None))]
fn trace_info_json(
    py: Python<'_>,
    path: &str,
    column: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let info = info(py, path, column, progress)?;
    serde_json::to_string(&info).map_err(|e| super::ModelsError::new_err(e.to_string()))
}

#[pyfunction]
#[pyo3(signature = (path, column=None, progress=None))]
fn trace_footprint(
    py: Python<'_>,
    path: &str,
    column: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u64)> {
    let info = info(py, path, column, progress)?;
    Ok((info.requests, info.distinct_pages))
}

/// The first `limit` requests of a trace.
fn head(path: &str, column: Option<&str>, limit: usize) -> Result<Chunk> {
    let mut reader: Box<dyn TraceReader> = open(Path::new(path), &options(column))?;
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
#[pyo3(signature = (path, count, column=None))]
fn trace_head_json(
    py: Python<'_>,
    path: &str,
    count: usize,
    column: Option<&str>,
) -> PyResult<String> {
    let chunk = py.detach(|| head(path, column, count))?;
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
#[pyo3(signature = (path, limit=None, column=None))]
fn trace_keys<'py>(
    py: Python<'py>,
    path: &str,
    limit: Option<usize>,
    column: Option<&str>,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let chunk = py.detach(|| head(path, column, limit.unwrap_or(usize::MAX)))?;
    Ok(chunk.keys.into_pyarray(py))
}

#[pyfunction]
#[pyo3(signature = (source, target, column=None, progress=None))]
fn trace_convert(
    py: Python<'_>,
    source: &str,
    target: &str,
    column: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<u64> {
    let mut progress = Progress::new(progress);
    let (source, target) = (Path::new(source), Path::new(target));
    let result = py
        .detach(|| convert(source, target, &options(column), &mut |share| progress.report(share)));
    progress.finish(result)
}
