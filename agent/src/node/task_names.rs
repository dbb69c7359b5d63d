// SPDX-License-Identifier: Apache-2.0
//! Names of tasks as objectives state them.

use crate::glob::{Slash, matches};
use crate::wire;

/// Command names of tasks, or glob patterns for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskNames(Vec<String>);

impl TaskNames {
    /// The names of one tenant.
    #[must_use]
    pub fn of(named: &wire::NamedTasks) -> Self {
        Self(named.names.clone())
    }

    /// Whether one of the names matches `command`. A slash is a character like any other.
    #[must_use]
    pub fn has(&self, command: &str) -> bool {
        self.0.iter().any(|name| matches(name, command, Slash::Ordinary))
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
