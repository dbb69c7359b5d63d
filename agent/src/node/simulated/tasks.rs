// SPDX-License-Identifier: Apache-2.0
//! Named tasks of a simulated tenant. Those of a trace have no names: they are called by their ids.

use super::tenant::Tenant;
use crate::error::Result;
use crate::node::task_names::TaskNames;
use crate::wire;
use std::collections::BTreeSet;

/// Tasks that are told apart; those that come after so many others have no name.
const MOST_SEEN: usize = 4096;

/// Tasks of one tenant.
#[derive(Default)]
pub(super) struct Tasks {
    seen: BTreeSet<u32>,
    names: Option<TaskNames>,
    /// Those that have one of the names, as they were last handed on.
    told: Option<Vec<u32>>,
}

impl Tasks {
    /// These tasks made accesses. Where none are named, nobody looks.
    pub(super) fn note(&mut self, tasks: &[u32]) {
        if self.names.is_none() {
            return;
        }
        let mut last = 0;
        for &task in tasks {
            // Mostly many in a row are of one task.
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
    /// What a plan says of its tasks.
    pub(super) fn name_tasks(&mut self, named: &[wire::NamedTasks]) -> Result<()> {
        let own = named.iter().find(|one| one.cgroup_id == self.cgroup_id);
        self.workload.stream.learning.tasks.names = own.map(TaskNames::of);
        self.follow_tasks()
    }

    /// Hands tasks on that are named and new.
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
