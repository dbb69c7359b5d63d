// SPDX-License-Identifier: Apache-2.0
//! Limits of systemd's units whose cgroups are gone. systemd begins such a unit with the limit that was
//! set of it, so it is asked to set the one that the unit had.

use crate::managers::{Asked, Managers};
use crate::node::kernel::KernelNode;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// systemd is waited for no longer, for all units together.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was asked of systemd, by id of the cgroup. Who is not answered in time is not waited for again:
/// the answer is looked for with the next try.
#[derive(Debug, Default)]
pub struct Returns(BTreeMap<u64, Return>);

#[derive(Debug)]
struct Return {
    asked: Asked<bool>,
    answer: Option<io::Result<bool>>,
}

impl Return {
    fn wait(&mut self, until: Instant) {
        if self.answer.is_none() {
            self.answer = self.asked.answer(until);
        }
    }
}

impl KernelNode {
    /// Asks for all units at once that have yet to get back their limits.
    pub(super) fn ask_for_units(&mut self) {
        let ids: Vec<u64> = self.ledger.entries().keys().copied().collect();
        let mut patience = Duration::ZERO;
        for id in ids {
            if self.ask_for_unit(id) {
                patience = PATIENCE;
            }
        }
        let until = Instant::now() + patience;
        self.returns.0.values_mut().for_each(|one| one.wait(until));
    }

    /// Asks for the unit of a cgroup that is gone, unless that was done; whether it did.
    fn ask_for_unit(&mut self, id: u64) -> bool {
        let (Some(units), Some(initial)) =
            (self.managers.as_ref().and_then(Managers::units), self.ledger.get(id))
        else {
            return false;
        };
        let now = self.fs.id(&initial.cgroup).ok();
        // What the one of this name has now is not that of the one before it.
        let is_free = now != Some(id) && now.is_none_or(|now| self.ledger.get(now).is_none());
        // What was yielded is others'.
        if !is_free || initial.yielded_us.is_some() || self.returns.0.contains_key(&id) {
            return false;
        }
        let asked = units.forget(&initial.cgroup, initial.high_bytes);
        self.returns.0.insert(id, Return { asked, answer: None });
        true
    }

    /// Why the unit of a cgroup that is gone keeps the limit that was set, if it does.
    pub(super) fn why_unit_keeps(&mut self, id: u64) -> Option<String> {
        self.ask_for_unit(id);
        let mut one = self.returns.0.remove(&id)?;
        one.wait(Instant::now());
        let keeps =
            |why: &dyn std::fmt::Display| Some(format!("its unit keeps the limit yet: {why}"));
        match one.answer {
            Some(Ok(had_one)) => {
                if let (true, Some(initial)) = (had_one, self.ledger.get(id)) {
                    tracing::info!(cgroup = %initial.cgroup, "is gone; its unit got back its limit");
                }
                None
            }
            // It is asked once more.
            Some(Err(error)) => keeps(&error),
            None => {
                self.returns.0.insert(id, one);
                keeps(&"systemd does not answer")
            }
        }
    }
}
