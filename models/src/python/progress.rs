// SPDX-License-Identifier: Apache-2.0
//! Progress reports and Ctrl-C during long calls.

use crate::error::{Error, Result};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Least time between two calls into the interpreter.
const PERIOD: Duration = Duration::from_millis(100);

/// Calls a Python function with the share done, and checks for signals, at most ten times a second.
pub(super) struct Progress {
    callback: Option<Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl Progress {
    pub(super) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self { callback, last: Instant::now(), raised: None }
    }

    /// Reports the share done. Returns [`Error::Interrupted`] if the callback or a signal handler
    /// raised an exception.
    pub(super) fn report(&mut self, share: f64) -> Result<()> {
        if self.last.elapsed() < PERIOD {
            return Ok(());
        }
        self.last = Instant::now();
        let called = Python::attach(|py| {
            py.check_signals()?;
            match &self.callback {
                Some(callback) => callback.call1(py, (share,)).map(drop),
                None => Ok(()),
            }
        });
        called.map_err(|error| {
            self.raised = Some(error);
            Error::Interrupted
        })
    }

    /// Converts the result for Python. An exception raised by the callback takes precedence over
    /// [`Error::Interrupted`].
    pub(super) fn finish<T>(self, result: Result<T>) -> PyResult<T> {
        match (result, self.raised) {
            (Err(Error::Interrupted), Some(raised)) => Err(raised),
            (result, _) => Ok(result?),
        }
    }
}
