// SPDX-License-Identifier: Apache-2.0
//! Named tasks of a simulated tenant. The tasks of a trace have no names, so their ids serve as
//! names.

use super::Tenant;
use crate::error::Result;
use crate::node::task_names::TaskNames;
use crate::wire;
use std::collections::BTreeSet;

/// The most tasks that are distinguished. Further ones are ignored.
const MOST_SEEN: usize = 4096;

/// Tasks of one tenant.
#[derive(Default)]
pub(super) struct Tasks {
    seen: BTreeSet<u32>,
    names: Option<TaskNames>,
    /// Ids of the tasks that have one of the names, as last passed on.
    told: Option<Vec<u32>>,
}

impl Tasks {
    /// Records the tasks that made accesses. Does nothing if no tasks are named.
    pub(super) fn note(&mut self, tasks: &[u32]) {
        if self.names.is_none() {
            return;
        }
        let mut last = 0;
        for &task in tasks {
            // Consecutive accesses are mostly of one task.
            if task != last && self.seen.len() < MOST_SEEN {
                self.seen.insert(task);
            }
            last = task;
        }
    }

    fn named(&self) -> Option<Vec<u32>> {
        let names = self.names.as_ref()?;
        Some(self.seen.iter().copied().filter(|task| names.has(&task.to_string())).collect())
    }
}

impl Tenant {
    /// Sets the names of its tasks as in a plan.
    pub(in super::super) fn name_tasks(&mut self, named: &[wire::NamedTasks]) {
        let own = named.iter().find(|one| one.cgroup_id == self.cgroup_id);
        self.workload.stream.learning.tasks.names = own.map(TaskNames::of);
        if let Err(error) = self.follow_tasks() {
            self.stop(&error);
        }
    }

    /// Passes the named tasks on if they changed.
    pub(super) fn follow_tasks(&mut self) -> Result<()> {
        let stream = &mut self.workload.stream;
        let tasks = stream.learning.tasks.named();
        if tasks == stream.learning.tasks.told {
            return Ok(());
        }
        stream.learning.set_tasks(tasks.as_deref())?;
        if let Some(tasks) = &tasks {
            stream.cache.set_tasks(tasks)?;
        }
        stream.learning.tasks.told = tasks;
        Ok(())
    }
}
