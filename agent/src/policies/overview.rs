// SPDX-License-Identifier: Apache-2.0
//! Lists the cgroups that have a policy, and the policy's statistics.

use super::Policies;
use super::folder::PolicyDir;
use super::kind::Kind;
use super::stats::CgroupStats;
use crate::cgroup::{self, Cgroup};
use crate::error::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// One cgroup with its policy.
#[derive(Debug, Clone)]
pub struct Row {
    /// Directory of the cgroup; `None` if it was removed and only pins are left.
    pub cgroup: Option<PathBuf>,
    /// Its id.
    pub id: u64,
    /// Name of the policy whose link is pinned for it.
    pub pinned: Option<String>,
    /// The kernel's statistics of the policy that decides here.
    pub stats: Option<CgroupStats>,
    /// The present tunables of the pinned policy; `None` if its manifest is not available.
    pub tunables: Option<Map<String, Value>>,
}

impl Row {
    /// The row of one cgroup, whether it has a policy or not.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn of(policies: &Policies, dir: &PolicyDir, cgroup: &Cgroup) -> Result<Self> {
        let stats = Some(CgroupStats::read(cgroup)?);
        let pinned = policies.pinned_policy(cgroup.id)?;
        let tunables = policies.tunables(cgroup.id, dir)?;
        Ok(Self { cgroup: Some(cgroup.path.clone()), id: cgroup.id, pinned, stats, tunables })
    }

    /// Whether a policy of either kind is attached to this cgroup itself.
    fn has_own(&self) -> bool {
        let kinds = [Kind::Eviction, Kind::Readahead];
        let has_own = |stats: &CgroupStats| kinds.iter().any(|&k| stats.own(k, self.id).is_some());
        self.stats.as_ref().is_some_and(has_own)
    }

    /// The row as one flat object. The keys of the kernel's file are unchanged.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("cgroup".into(), json!(self.cgroup));
        object.insert("cgroup_id".into(), json!(self.id));
        object.insert("pinned".into(), json!(self.pinned));
        object.extend(self.stats.iter().flat_map(CgroupStats::to_json));
        if let Some(tunables) = &self.tunables {
            object.insert("tunables".into(), json!(tunables));
        }
        Value::Object(object)
    }
}

/// All cgroups that have a policy of their own, of either kind, or pins of an eviction policy. A
/// cgroup that is removed in the meantime is left out.
///
/// # Errors
/// Returns the kernel's error.
pub fn all(policies: &Policies, dir: &PolicyDir) -> Result<Vec<Row>> {
    let mount = cgroup::mount::mounted()?;
    let mut pinned: BTreeSet<u64> = policies.pinned()?.into_iter().map(|pins| pins.id).collect();
    let mut rows = Vec::new();
    for cgroup in cgroup::walk(&mount) {
        let row = match Row::of(policies, dir, &cgroup) {
            Err(_) if !cgroup.path.exists() => continue,
            row => row?,
        };
        if pinned.remove(&row.id) || row.has_own() {
            rows.push(row);
        }
    }
    for id in pinned {
        let pinned = policies.pinned_policy(id)?;
        rows.push(Row { cgroup: None, id, pinned, stats: None, tunables: None });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_with_a_policy_of_either_kind_is_listed() {
        let has_own = |owner: u64, prefetch_owner: u64| {
            let name = |owner| if owner == 0 { "none" } else { "lru" };
            let text = format!(
                "policy {}\nowner {owner}\nstate -\nprefetch_policy {}\n\
                 prefetch_owner {prefetch_owner}\n",
                name(owner),
                name(prefetch_owner)
            );
            let stats = Some(CgroupStats::parse(&text).unwrap());
            Row { cgroup: None, id: 7, pinned: None, stats, tunables: None }.has_own()
        };
        assert!(has_own(7, 0) && has_own(0, 7) && has_own(3, 7));
        assert!(!has_own(0, 0) && !has_own(3, 0) && !has_own(0, 3));
    }
}
