// SPDX-License-Identifier: Apache-2.0
//! Limits that someone else rewrites: set once more, and after that left to them.
//!
//! Two programs that both insist on a limit would rewrite it for ever, each time at the tenant's
//! cost. The agent insists once. An action in between changes nothing about that, or a controller
//! that moves limits often would keep the fight going; only an action for a limit that was yielded
//! starts again.

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
    /// Someone else set a limit of this agent's, and it was set once more.
    Asserted,
    /// Someone else did again: it is theirs.
    Yielded,
    /// Someone else set what was not this agent's.
    Foreign,
}

/// Who sets a limit, with what was seen of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Contested {
    pub(super) by: Contest,
    told: String,
    /// Limits that were yielded so far.
    yields: u64,
}

impl Contested {
    /// Whether the limit may be this agent's.
    pub(super) fn may_be_ours(&self) -> bool {
        matches!(self.by, Contest::None | Contest::Asserted)
    }

    /// An action for a limit that is someone else's: it is this agent's again.
    pub(super) fn begin_anew(&mut self) {
        if !self.may_be_ours() {
            self.by = Contest::None;
        }
    }
}

impl Limit {
    /// Who sets it.
    #[must_use]
    pub fn contest(&self) -> Contest {
        self.contested.by
    }

    /// What was seen of someone else who sets it, and how often it was yielded.
    #[must_use]
    pub fn contest_told(&self) -> (&str, u64) {
        (&self.contested.told, self.contested.yields)
    }

    /// It was yielded by an agent before this one.
    pub fn was_yielded(&mut self) {
        self.wish = None;
        self.contested.by = Contest::Yielded;
        self.contested.told = format!("{HIGH} is set by someone else; left alone");
        self.remark.clone_from(&self.contested.told);
    }

    /// It is not what it was set to: that write failed late, or someone else set it.
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

    /// Sets what was wished for once more: at once where that takes nothing away, else in steps.
    fn assert(&mut self, with: &mut Steering<'_>, wish: Option<u64>, usage: &Usage, told: &str) {
        let wish = wish.map(|bytes| bytes.max(usage.floor));
        (self.wish, self.contested.by) = (Some(wish), Contest::Asserted);
        let (outcome, reason) = self.go(with, wish, usage);
        if self.contested.by != Contest::Asserted {
            // It was rewritten again meanwhile.
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
