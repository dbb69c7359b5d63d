// SPDX-License-Identifier: Apache-2.0
//! The one error type of this crate.

use std::path::{Path, PathBuf};

/// What can go wrong between a trace file and a curve. Every message is one line that names
/// the file or the argument, and the allowed range where there is one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("{path}: {source}")]
    Io {
        /// File the operation was on.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what its format promises (truncated, corrupt, empty, unknown).
    #[error("{path}: {message}")]
    Format {
        /// The offending file.
        path: PathBuf,
        /// What is wrong and where.
        message: String,
    },
    /// A value given by the caller is outside its allowed range.
    #[error("{name}: {message}")]
    Argument {
        /// Name of the argument.
        name: &'static str,
        /// What was given and what is allowed.
        message: String,
    },
    /// A policy did something that the page cache does not allow; names the broken invariant.
    #[error("policy {policy}: {message}")]
    Policy {
        /// Name of the policy.
        policy: String,
        /// The invariant that does not hold.
        message: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An [`Error::Io`] on `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), source }
    }

    /// An [`Error::Format`] on `path`.
    pub fn format(path: &Path, message: impl Into<String>) -> Self {
        Self::Format { path: path.to_path_buf(), message: message.into() }
    }

    /// An [`Error::Argument`] for `name`.
    pub fn argument(name: &'static str, message: impl Into<String>) -> Self {
        Self::Argument { name, message: message.into() }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
