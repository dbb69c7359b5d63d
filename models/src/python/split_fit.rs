// SPDX-License-Identifier: Apache-2.0
//! The fit of a throughput model, for Python.

use super::array::Held;
use crate::split_fit::{Pair, SplitProblem};
use numpy::PyArray1;
use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fit_split, module)?)
}

#[pyfunction]
fn fit_split(
    seen: &Bound<'_, PyArray1<f64>>,
    waits: &Bound<'_, PyArray1<f64>>,
    weights: &Bound<'_, PyArray1<f64>>,
    prior: Pair,
    start: Pair,
    low: Pair,
    high: Pair,
) -> PyResult<(f64, f64)> {
    let (seen, waits) = (Held::new(seen)?.to_vec()?, Held::new(waits)?.to_vec()?);
    let weights = Held::new(weights)?.to_vec()?;
    let one = SplitProblem::new(&seen, &waits, &weights, prior, low, high)?;
    let [service_us, accesses] = one.best(start);
    Ok((service_us, accesses))
}
