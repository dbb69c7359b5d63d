// SPDX-License-Identifier: Apache-2.0
//! Files of the agent's own state that it cannot read.

use std::fs;
use std::path::Path;

/// Copies a file that cannot be read in its format, so that somebody can look at it, and logs an
/// error with the name of the copy.
pub fn copy_aside(path: &Path, reason: &str) {
    let aside = path.with_extension("json.damaged");
    match fs::copy(path, &aside) {
        Ok(_) => tracing::error!("{}: {reason}; a copy is {}", path.display(), aside.display()),
        Err(error) => tracing::error!("{}: {reason}; no copy: {error}", path.display()),
    }
}
