// SPDX-License-Identifier: Apache-2.0
//! Options for reading a trace file, for Python.

use crate::trace::OpenOptions;
use pyo3::prelude::*;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TraceOptions>()
}

/// See `_models.pyi`.
#[pyclass(frozen, from_py_object, module = "cachepilot._models")]
#[derive(Debug, Default, Clone)]
pub(super) struct TraceOptions {
    format: Option<String>,
    column: Option<String>,
    offset: Option<String>,
    length: Option<String>,
    page_bytes: Option<u64>,
    whole_requests: bool,
}

#[pymethods]
impl TraceOptions {
    #[new]
    #[pyo3(signature = (format=None, column=None, offset=None, length=None, page_bytes=None,
                        whole_requests=false))]
    fn new(
        format: Option<String>,
        column: Option<String>,
        offset: Option<String>,
        length: Option<String>,
        page_bytes: Option<u64>,
        whole_requests: bool,
    ) -> Self {
        Self { format, column, offset, length, page_bytes, whole_requests }
    }
}

impl<'a> From<&'a TraceOptions> for OpenOptions<'a> {
    fn from(options: &'a TraceOptions) -> Self {
        Self {
            format: options.format.as_deref(),
            column: options.column.as_deref(),
            offset: options.offset.as_deref(),
            length: options.length.as_deref(),
            page_bytes: options.page_bytes,
            whole_requests: options.whole_requests,
        }
    }
}
