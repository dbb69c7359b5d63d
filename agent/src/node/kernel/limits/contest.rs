// SPDX-License-Identifier: Apache-2.0
//! Limits that another program overwrites. The agent sets its limit once more, and yields the next
//! time: from then on it leaves the limit to the other program.
//!
//! Two programs that both insist on a limit would overwrite it for ever, at the tenant's cost. The
//! agent insists once. An action in between does not renew that right, or a controller that moves
//! limits often would keep the conflict going. Only an action for a limit that is already yielded
//! does.

use super::{HIGH, Limit, Steering, shown};
use crate::node::kernel::limits::writer::Purpose;
use crate::node::kernel::tenant::memory::Usage;
use crate::wire::result::Outcome;

/// Who sets a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Contest {
    /// This agent, or nobody.
    #[default]
    None,
    /// Another program overwrote this agent's limit, and the agent set it once more.
    Asserted,
    /// Another program overwrote the limit again, so the agent leaves it to that program.
    Yielded,
    /// Another program set a limit that this agent did not maintain.
    Foreign,
}

/// Who sets a limit, and what was observed.
#[derive(Debug, Clone, Default)]
pub(super) struct Contested {
    pub(super) by: Contest,
    told: String,
    /// Number of times that the limit was yielded so far.
    yields: u64,
}

impl Contested {
    /// Whether this agent may maintain the limit.
    pub(super) fn may_be_ours(&self) -> bool {
        matches!(self.by, Contest::None | Contest::Asserted)
    }

    /// Handles an action for the limit: a limit that another program sets becomes this agent's
    /// again.
    pub(super) fn begin_anew(&mut self) {
        if !self.may_be_ours() {
            self.by = Contest::None;
        }
    }
}

impl Limit {
    /// Who sets the limit.
    #[must_use]
    pub fn contest(&self) -> Contest {
        self.contested.by
    }

    /// What was observed of another program that sets the limit, and how often the limit was
    /// yielded.
    #[must_use]
    pub fn contest_told(&self) -> (&str, u64) {
        (&self.contested.told, self.contested.yields)
    }

    /// Marks the limit as yielded by an earlier agent.
    pub fn was_yielded(&mut self) {
        self.wish = None;
        self.contested.by = Contest::Yielded;
        self.contested.told = format!("{HIGH} is set by someone else; left alone");
        self.remark.clone_from(&self.contested.told);
    }

    /// Handles a limit that differs from what was written: either that write failed late, or
    /// another program changed the limit.
    pub(super) fn differs(
        &mut self,
        with: &mut Steering<'_>,
        purpose: Purpose,
        actual: Option<u64>,
        usage: &Usage,
    ) {
        let file = with.fs.file(&self.cgroup, HIGH);
        match with.writer.take_result(self.cgroup_id, purpose, &file) {
            Some(Err(error)) => {
                self.known = actual;
                self.stop(format!("{HIGH}: {error}"));
            }
            _ => self.was_rewritten(with, actual, usage),
        }
    }

    fn was_rewritten(&mut self, with: &mut Steering<'_>, actual: Option<u64>, usage: &Usage) {
        let (now, was) = (shown(actual), shown(self.known));
        let told = format!("{HIGH} was set to {now} by someone else (it was {was})");
        let (wish, by) = (self.wish.take(), self.contested.by);
        self.stop(String::new());
        self.known = actual;
        self.contested.by = match (wish, by) {
            (Some(wish), Contest::None) => return self.assert(with, wish, usage, &told),
            (Some(_), _) => {
                self.contested.yields += 1;
                Contest::Yielded
            }
            (None, Contest::Yielded) => Contest::Yielded,
            (None, _) => Contest::Foreign,
        };
        self.contested.told = match self.contested.by {
            Contest::Yielded => format!("{told}, who had been corrected once; left alone"),
            _ => format!("{told}; left alone"),
        };
        self.remark.clone_from(&self.contested.told);
    }

    /// Sets the requested limit once more: at once if that takes no memory from the tenant,
    /// otherwise in steps.
    fn assert(&mut self, with: &mut Steering<'_>, wish: Option<u64>, usage: &Usage, told: &str) {
        let wish = wish.map(|bytes| bytes.max(usage.floor));
        (self.wish, self.contested.by) = (Some(wish), Contest::Asserted);
        let (outcome, reason) = self.go(with, wish, usage);
        if self.contested.by != Contest::Asserted {
            // Another program overwrote the limit again during that.
            return;
        }
        let wish = shown(wish);
        self.contested.told = match outcome {
            Outcome::Applied | Outcome::Started | Outcome::Unchanged => {
                format!("{told}; set to {wish} once more")
            }
            _ => format!("{told}; not set to {wish} once more: {reason}"),
        };
        self.remark.clone_from(&self.contested.told);
    }
}

#[cfg(test)]
#[path = "contest_tests.rs"]
mod tests;
