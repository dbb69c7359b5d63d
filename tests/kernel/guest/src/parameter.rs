// SPDX-License-Identifier: Apache-2.0
//! Parameters of the framework, for the time of a case.

use crate::error::{Result, read_text, write_text};

/// Time that a policy may take for a request.
pub const WATCHDOG_MS: &str = "/sys/module/cache_ext/parameters/max_request_ms";
/// Requests in a row that a policy may serve by less than half.
pub const WATCHDOG_SHORT: &str = "/sys/module/cache_ext/parameters/max_short_requests";

/// A parameter that has its old value again at the end.
#[derive(Debug)]
pub struct Parameter {
    path: &'static str,
    was: String,
}

impl Parameter {
    /// Sets it until this value goes.
    ///
    /// # Errors
    /// What the system says.
    pub fn set(path: &'static str, value: &str) -> Result<Self> {
        let was = read_text(path)?;
        write_text(path, value)?;
        Ok(Self { path, was })
    }
}

impl Drop for Parameter {
    fn drop(&mut self) {
        if let Err(error) = write_text(self.path, self.was.trim()) {
            eprintln!("{error}");
        }
    }
}
