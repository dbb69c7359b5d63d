// SPDX-License-Identifier: Apache-2.0
//! Limits of systemd units whose cgroups are gone. systemd starts such a unit again with the limit
//! that was last set on it. The agent therefore asks systemd to set the unit's first limit.

use crate::managers::{Asked, Managers};
use crate::node::kernel::KernelNode;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// The longest wait for systemd, for all units together.
const PATIENCE: Duration = Duration::from_millis(500);

/// Requests to systemd, by id of the cgroup. A request that is not answered in time is not waited
/// for again: its answer is looked up at the next attempt.
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
    /// Sends requests for all units that have yet to get back their limits, and waits for the
    /// answers together.
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

    /// Sends a request for the unit of a cgroup that is gone, unless one was sent already. Returns
    /// whether it sent one.
    fn ask_for_unit(&mut self, id: u64) -> bool {
        let (Some(units), Some(initial)) =
            (self.managers.as_ref().and_then(Managers::units), self.ledger.get(id))
        else {
            return false;
        };
        let now = self.fs.id(&initial.cgroup).ok();
        // If another cgroup has this name now and was changed, the request would undo that change.
        let is_free = now != Some(id) && now.is_none_or(|now| self.ledger.get(now).is_none());
        // A yielded limit belongs to another program.
        if !is_free
            || initial.yielded_us.is_some()
            || self.returns.0.contains_key(&id)
            || self.why_elsewhere(id).is_some()
        {
            return false;
        }
        let asked = units.forget(&initial.cgroup, initial.high_bytes);
        self.returns.0.insert(id, Return { asked, answer: None });
        true
    }

    /// The reason why the unit of a cgroup that is gone still has the agent's limit; `None` if it
    /// does not.
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
            // The request was removed above, so that the next attempt sends it again.
            Some(Err(error)) => keeps(&error),
            None => {
                self.returns.0.insert(id, one);
                keeps(&"systemd does not answer")
            }
        }
    }
}
