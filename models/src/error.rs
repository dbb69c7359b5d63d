// SPDX-License-Identifier: Apache-2.0
//! The error type of this crate.

use std::path::{Path, PathBuf};

/// The errors of this crate. Every message is one line that names the file or the argument, and the
/// allowed range if there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("{path}: {source}")]
    Io {
        /// File that the operation was on.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The contents of a file do not match its format (truncated, corrupt, empty, unknown).
    #[error("{path}: {message}")]
    Format {
        /// The offending file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// A value passed by the caller is outside its allowed range.
    #[error("{name}: {message}")]
    Argument {
        /// Name of the argument.
        name: &'static str,
        /// The value that was passed, and what is allowed.
        message: String,
    },
    /// A policy broke an invariant of the page cache.
    #[error("policy {policy}: {message}")]
    Policy {
        /// Name of the policy.
        policy: String,
        /// The broken invariant.
        message: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Creates an [`Error::Io`] on `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    /// Creates an [`Error::Format`] on `path`.
    pub fn format(path: &Path, message: impl Into<String>) -> Self {
        Self::Format { path: path.to_path_buf(), message: message.into() }
    }

    /// Creates an [`Error::Argument`] for `name`.
    pub fn argument(name: &'static str, message: impl Into<String>) -> Self {
        Self::Argument { name, message: message.into() }
    }
}

/// Result of a function of this crate.
pub type Result<T> = std::result::Result<T, Error>;
