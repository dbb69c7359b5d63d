// SPDX-License-Identifier: Apache-2.0
//! Why a case failed.

use std::io;
use std::path::Path;

/// A case that did not pass: the kernel did something else, or something could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was expected, and what was found.
    #[error("{0}")]
    Check(String),
    /// A system call or a file.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The kernel refused to load a policy.
    #[error("loading {policy}: {said}")]
    Refused {
        /// Its name.
        policy: String,
        /// What the verifier or libbpf had to say.
        said: String,
    },
    /// libbpf or the kernel refused something else.
    #[error("{what}: {source:#}")]
    Bpf {
        /// What was tried.
        what: String,
        /// What libbpf says.
        source: libbpf_rs::Error,
    },
}

/// The outcome of a case or a part of it.
pub type Result<T> = std::result::Result<T, Error>;

/// Puts what was tried before an error of the system.
pub trait Context<T> {
    /// Names what was tried.
    ///
    /// # Errors
    /// The error, with its name.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::System { what: what(), source })
    }
}

impl<T> Context<T> for libbpf_rs::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Bpf { what: what(), source })
    }
}

/// The result of a system call, that is negative when it failed.
///
/// # Errors
/// [`Error::System`].
pub fn checked<T: PartialOrd + Default>(result: T, what: &str) -> Result<T> {
    if result < T::default() {
        return Err(io::Error::last_os_error()).context(|| what.to_owned());
    }
    Ok(result)
}

/// The text of a file.
///
/// # Errors
/// [`Error::System`].
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    std::fs::read_to_string(path).context(|| path.display().to_string())
}

/// Writes to a file of the kernel.
///
/// # Errors
/// [`Error::System`].
pub fn write_text(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    let open = std::fs::OpenOptions::new().write(true).open(path);
    let written = open.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    written.context(|| format!("writing {text:?} to {}", path.display()))
}

/// Fails the case unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::error::Error::Check(format!($($message)+)));
        }
    };
}
