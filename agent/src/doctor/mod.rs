// SPDX-License-Identifier: Apache-2.0
//! Checks on this host that each hook fires and each actuator works, by means of a canary: a cgroup
//! of its own that accesses a file of its own. For whatever is missing, the report names the next
//! step; it also names other programs that manage memory here.

mod canary;
mod host;
mod live;
mod others;

pub use canary::run_canary;

use crate::policies::folder::PolicyDir;
use canary::Canary;
use serde::Serialize;
use std::path::PathBuf;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works, as observed.
    Works,
    /// It does not work, and the agent needs it.
    Missing,
    /// It does not work, and the agent can do without it.
    Without,
    /// It could not be tried because an earlier check failed.
    Untried,
    /// It works, and something about it is worth knowing.
    Note,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// The result.
    pub status: Status,
    /// What was observed, or why it does not work.
    pub detail: String,
    /// What to do about it; empty if there is nothing to do.
    pub next_step: String,
}

impl Check {
    fn works(name: &str, detail: impl Into<String>) -> Self {
        Self::of(name, Status::Works, detail, "")
    }

    fn missing(name: &str, detail: impl Into<String>, next_step: &str) -> Self {
        Self::of(name, Status::Missing, detail, next_step)
    }

    fn without(name: &str, detail: impl Into<String>, next_step: &str) -> Self {
        Self::of(name, Status::Without, detail, next_step)
    }

    fn note(name: &str, detail: impl Into<String>, next_step: &str) -> Self {
        Self::of(name, Status::Note, detail, next_step)
    }

    fn untried(name: &str, needs: &str) -> Self {
        Self::of(name, Status::Untried, format!("needs: {needs}"), "")
    }

    fn of(name: &str, status: Status, detail: impl Into<String>, next_step: &str) -> Self {
        let detail = detail.into().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { name: name.into(), status, detail, next_step: next_step.into() }
    }

    fn is_good(&self) -> bool {
        matches!(self.status, Status::Works | Status::Without | Status::Note)
    }
}

/// Whether everything that the agent needs works.
#[must_use]
pub fn is_healthy(checks: &[Check]) -> bool {
    checks.iter().all(Check::is_good)
}

/// Options of the examination.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder on a disk, for the canary's file.
    pub dir: PathBuf,
    /// Compiled policies.
    pub policies: PolicyDir,
}

/// Names of the live checks, in their order.
const LIVE: [&str; 13] = [
    "canary",
    "reads",
    "splices",
    "writes",
    "faults",
    "misses",
    "events",
    "memory.high",
    "memory.reclaim",
    "evictions",
    "refaults",
    "removals",
    "policies",
];

/// Runs all checks, in the order in which they depend on each other. The canary is removed at the
/// end.
#[must_use]
pub fn examine(options: &Options) -> Vec<Check> {
    let mut checks = host::checks();
    let needed = checks.iter().find(|check| check.status == Status::Missing);
    let needed = needed.map(|check| check.name.clone());
    checks.extend(others::checks());
    if let Some(missing) = needed {
        checks.extend(LIVE.iter().map(|name| Check::untried(name, &missing)));
        return checks;
    }
    match Canary::new(&options.dir) {
        Ok(canary) => {
            let detail =
                format!("{} reads {}", canary.cgroup.path.display(), canary.file.display());
            checks.push(Check::works(LIVE[0], detail));
            checks.extend(live::checks(&canary, options));
        }
        Err(error) => {
            let step = "name a folder on a disk by --dir";
            checks.push(Check::missing(LIVE[0], error.to_string(), step));
            checks.extend(LIVE[1..].iter().map(|name| Check::untried(name, LIVE[0])));
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_listed_whatever_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let policies = PolicyDir::find(Some(dir.path()));
        let checks = examine(&Options { dir: dir.path().into(), policies });
        for name in LIVE {
            assert!(checks.iter().any(|check| check.name == name), "{name}");
        }
        for check in checks {
            assert!(!check.detail.contains('\n') && !check.detail.is_empty(), "{check:?}");
            let silent = matches!(check.status, Status::Works | Status::Untried);
            assert_eq!(check.next_step.is_empty(), silent, "{check:?}");
        }
    }

    #[test]
    fn a_missing_optional_feature_is_healthy() {
        let works = Check::works("a", "yes");
        assert!(is_healthy(&[works.clone(), Check::without("b", "no", "do")]));
        assert!(!is_healthy(&[works.clone(), Check::missing("b", "no", "do")]));
        assert!(!is_healthy(&[works, Check::untried("b", "a")]));
    }
}
