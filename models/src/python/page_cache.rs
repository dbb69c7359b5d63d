// SPDX-License-Identifier: Apache-2.0
//! A simulated page cache whose policy and size change while it runs, seen from Python.

use crate::error::Result;
use crate::policy::{Instance, InstanceConfig, KERNEL_BATCH, Requests, resolve};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PageCache>()
}

/// See `_models.pyi`.
#[pyclass(unsendable, module = "cachepilot._models")]
struct PageCache {
    instance: Instance,
    size_pages: u64,
    seed: u64,
}

fn cold(policy: &str, capacity_pages: u64, seed: u64) -> Result<Instance> {
    let candidate = resolve(policy)?;
    let tunables = candidate.tunables;
    let config = InstanceConfig { capacity_pages, batch: KERNEL_BATCH, seed, tunables };
    Instance::new(candidate.policy, &config)
}

#[pymethods]
impl PageCache {
    #[new]
    #[pyo3(signature = (policy, size_pages, seed=1))]
    fn new(policy: &str, size_pages: u64, seed: u64) -> PyResult<Self> {
        Ok(Self { instance: cold(policy, size_pages, seed)?, size_pages, seed })
    }

    fn run<'py>(
        &mut self,
        py: Python<'py>,
        keys: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let keys = keys.as_slice().map_err(|e| super::ModelsError::new_err(e.to_string()))?;
        let mut hits = vec![0; keys.len()];
        let instance = &mut self.instance;
        py.detach(|| instance.run(Requests::of_keys(keys), Some(&mut hits)))?;
        let hits: Vec<bool> = hits.into_iter().map(|hit| hit != 0).collect();
        Ok(hits.into_pyarray(py))
    }

    fn swap(&mut self, policy: &str) -> PyResult<()> {
        let mut new = cold(policy, self.size_pages, self.seed)?;
        new.adopt(&self.instance.resident_keys())?;
        self.instance = new;
        Ok(())
    }

    fn resize(&mut self, size_pages: u64) -> PyResult<()> {
        self.instance.resize(size_pages, KERNEL_BATCH)?;
        self.size_pages = size_pages;
        Ok(())
    }

    fn resident<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        self.instance.resident_keys().into_pyarray(py)
    }
}
