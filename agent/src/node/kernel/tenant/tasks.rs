// SPDX-License-Identifier: Apache-2.0
//! Tasks of tenants, by the names that objectives state. They are searched for again as they come
//! and go, and their ids are passed to the simulation and to the policy.

use crate::cgroup::fs::CgroupFs;
use crate::error::{Error, Result};
use crate::node::kernel::KernelNode;
use crate::node::kernel::host::Host;
use crate::node::task_names::TaskNames;
use crate::wire;
use std::collections::{BTreeMap, BTreeSet};

/// The most tasks that a policy can treat apart.
const MOST_TASKS: usize = 16;

/// Names of tasks by the id of their tenant.
pub(in crate::node::kernel) type Named = BTreeMap<u64, TaskNames>;

/// The names that a plan contains.
pub(in crate::node::kernel) fn named(tasks: &[wire::NamedTasks]) -> Named {
    tasks.iter().map(|one| (one.cgroup_id, TaskNames::of(one))).collect()
}

/// Ids of the tasks that have one of these names, in `cgroup` and in the cgroups below it without
/// other tenants; sorted. What vanishes in the meantime is left out.
fn find(
    fs: &CgroupFs,
    host: &Host,
    cgroup: &str,
    tenants: &BTreeSet<&str>,
    names: &TaskNames,
) -> Vec<u32> {
    let (mut found, mut pending) = (Vec::new(), vec![cgroup.to_owned()]);
    while let Some(cgroup) = pending.pop() {
        let threads = fs.read(&cgroup, "cgroup.threads").unwrap_or_default();
        let ids = threads.lines().filter_map(|line| line.parse::<u32>().ok());
        found.extend(ids.filter(|id| {
            host.line(&format!("{id}/comm")).is_ok_and(|command| names.has(&command))
        }));
        let below = fs.children(&cgroup).into_iter();
        pending.extend(below.filter(|child| !tenants.contains(child.as_str())));
    }
    found.sort_unstable();
    found
}

impl KernelNode {
    /// Searches for the named tasks of all tenants, and passes them on where they changed. If no
    /// tasks are named for a tenant, its running policy keeps the tasks that it has, which an
    /// operator may have set.
    pub(in crate::node::kernel) fn follow_tasks(&mut self) {
        let paths: BTreeSet<&str> = self.tenants.values().map(|t| t.cgroup.as_str()).collect();
        let mut changed = Vec::new();
        for tenant in self.tenants.values() {
            let names = self.named.get(&tenant.id);
            let mut tasks =
                names.map(|names| find(&self.fs, &self.host, &tenant.cgroup, &paths, names));
            let count = tasks.as_ref().map_or(0, Vec::len);
            tasks.iter_mut().for_each(|tasks| tasks.truncate(MOST_TASKS));
            if tasks == tenant.tasks {
                continue;
            }
            if count > MOST_TASKS {
                let cgroup = &tenant.cgroup;
                tracing::warn!(%cgroup, count, "only {MOST_TASKS} of its named tasks are followed");
            }
            changed.push((tenant.id, tasks));
        }
        for (id, tasks) in changed {
            if let Err(error) = self.set_tasks(id, tasks) {
                // The next scan tries again.
                let cgroup = self.tenants.get(&id).map_or("", |tenant| &tenant.cgroup);
                tracing::warn!(cgroup, %error, "the tasks of its policy were not set");
                if matches!(error, Error::Locked(_)) {
                    break;
                }
            }
        }
    }

    fn set_tasks(&mut self, id: u64, tasks: Option<Vec<u32>>) -> Result<()> {
        let Some(tenant) = self.tenants.get_mut(&id) else { return Ok(()) };
        if let Some(sampling) = &mut self.sampling {
            sampling.set_tasks(id, tasks.clone());
        }
        if let (Some(policies), Some(tasks)) = (self.policies.as_deref(), &tasks) {
            policies.set_tasks(&tenant.as_cgroup(&self.fs), tasks)?;
        }
        tenant.tasks = tasks;
        Ok(())
    }
}
