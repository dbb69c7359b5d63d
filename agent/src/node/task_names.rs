// SPDX-License-Identifier: Apache-2.0
//! Names of tasks as objectives state them.

use crate::wire;
use std::ffi::CString;

/// Command names of tasks, or glob patterns for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskNames(Vec<CString>);

impl TaskNames {
    /// The names of one tenant. A name with a NUL byte is left out.
    #[must_use]
    pub fn of(named: &wire::NamedTasks) -> Self {
        Self(named.names.iter().filter_map(|name| CString::new(name.as_str()).ok()).collect())
    }

    /// Whether one of the names matches `command` by fnmatch(3). A slash is a character like any
    /// other.
    #[must_use]
    pub fn has(&self, command: &str) -> bool {
        let Ok(command) = CString::new(command) else { return false };
        // SAFETY: both arguments are C strings.
        let is_match =
            |name: &CString| unsafe { libc::fnmatch(name.as_ptr(), command.as_ptr(), 0) == 0 };
        self.0.iter().any(is_match)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_globs_of_them() {
        let names = ["rocksdb:low", "backup*", "kworker/?:*", "a\0b"].map(String::from).to_vec();
        let names = TaskNames::of(&wire::NamedTasks { names, ..Default::default() });
        for command in ["rocksdb:low", "backup", "backup-2", "kworker/1:0"] {
            assert!(names.has(command), "{command}");
        }
        for command in ["rocksdb:high", "my-backup", "", "a"] {
            assert!(!names.has(command), "{command}");
        }
    }
}
