// SPDX-License-Identifier: Apache-2.0
//! The Python extension `cachepilot._models`. `controller/cachepilot/_models.pyi` declares its
//! types.

mod array;
mod cache;
mod curves;
mod knapsack;
mod options;
mod prefetch;
mod progress;
mod records;
mod simulation;
mod source;
mod split_fit;
mod trace;

use pyo3::prelude::*;

pyo3::create_exception!(_models, ModelsError, pyo3::exceptions::PyValueError);

impl From<crate::Error> for PyErr {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Interrupted => pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
            error => ModelsError::new_err(error.to_string()),
        }
    }
}

#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[pyfunction]
fn policies_json() -> &'static str {
    crate::policy::manifests_json()
}

#[pymodule]
fn _models(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ModelsError", module.py().get_type::<ModelsError>())?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    module.add_function(wrap_pyfunction!(policies_json, module)?)?;
    options::register(module)?;
    trace::register(module)?;
    records::register(module)?;
    simulation::register(module)?;
    cache::register(module)?;
    prefetch::register(module)?;
    curves::register(module)?;
    knapsack::register(module)?;
    split_fit::register(module)
}
