// SPDX-License-Identifier: Apache-2.0
//! The search of a knapsack's core seen from Python.

use crate::knapsack::{Classes, Limits, search};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(search_knapsack, module)?)
}

#[pyfunction]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
fn search_knapsack<'py>(
    py: Python<'py>,
    weights: PyReadonlyArray1<'py, i64>,
    losses: PyReadonlyArray1<'py, f64>,
    ends: PyReadonlyArray1<'py, i64>,
    capacity: i64,
    price: f64,
    loss: f64,
    resolution: f64,
    states: usize,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (weights, losses) = (weights.as_slice()?, losses.as_slice()?);
    let ends: Vec<usize> =
        ends.as_slice()?.iter().map(|end| usize::try_from(*end).unwrap_or(usize::MAX)).collect();
    let limits = Limits { loss, resolution, states };
    let found =
        py.detach(|| search(Classes { weights, losses, ends: &ends }, capacity, price, limits))?;
    #[allow(clippy::cast_possible_wrap)]
    let options = |found: Vec<usize>| found.into_iter().map(|at| at as i64).collect::<Vec<_>>();
    Ok(found.map(|found| options(found).into_pyarray(py)))
}
