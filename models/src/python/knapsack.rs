// SPDX-License-Identifier: Apache-2.0
//! The search of the core of a knapsack, for Python.

use super::array::Held;
use crate::knapsack::{Classes, Limits, search};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(search_knapsack, module)?)
}

#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn search_knapsack<'py>(
    py: Python<'py>,
    weights: &Bound<'py, PyArray1<i64>>,
    losses: &Bound<'py, PyArray1<f64>>,
    ends: &Bound<'py, PyArray1<i64>>,
    capacity: i64,
    price: f64,
    loss: f64,
    resolution: f64,
    states: usize,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (weights, losses) = (Held::new(weights)?.to_vec()?, Held::new(losses)?.to_vec()?);
    let ends: Vec<usize> = Held::new(ends)?
        .to_vec()?
        .into_iter()
        .map(|end| usize::try_from(end).unwrap_or(usize::MAX))
        .collect();
    let limits = Limits { loss, resolution, states };
    let classes = Classes { weights: &weights, losses: &losses, ends: &ends };
    let found = py.detach(|| search(classes, capacity, price, limits))?;
    #[allow(clippy::cast_possible_wrap)]
    let options = |found: Vec<usize>| found.into_iter().map(|at| at as i64).collect::<Vec<_>>();
    Ok(found.map(|found| options(found).into_pyarray(py)))
}
