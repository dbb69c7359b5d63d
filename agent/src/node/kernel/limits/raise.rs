// SPDX-License-Identifier: Apache-2.0
//! Limits that are to hold at once, even while an earlier limit is still being lowered.

use super::contest::Contested;
use super::{HIGH, Limit, RECLAIMING, Steering, Verdict, Written, failed};
use crate::node::kernel::limits::writer::Purpose;
use crate::node::kernel::tenant::memory::Usage;
use crate::wire::result::Outcome;

/// A limit that was written to hold at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raise {
    to: Option<u64>,
    /// No other write of the limit was under way when this one was made. A change after that is
    /// therefore another program's.
    is_last: bool,
}

impl Limit {
    /// Sets the first limit of the cgroup, whatever it uses, since that limit was the operator's.
    /// If the outcome is `Started`, the caller has to request this again.
    pub fn give_back(&mut self, with: &mut Steering<'_>, initial: Option<u64>) -> Verdict {
        self.forget();
        (self.wish, self.contested) = (None, Contested::default());
        let is_settling = self.is_being_written(with);
        match with.fs.limit(&self.cgroup, HIGH) {
            Ok(actual) => self.known = actual,
            Err(error) => return failed(&with.fs.file(&self.cgroup, HIGH), &error),
        }
        if self.known == initial && !is_settling {
            return (Outcome::Unchanged, String::new());
        }
        match self.raise(with, initial) {
            (Outcome::Applied, _) if self.raise.is_some() => (Outcome::Started, RECLAIMING.into()),
            verdict => verdict,
        }
    }

    /// Writes a limit at once, whatever is under way. [`Limit::step`] checks that it stays.
    pub(super) fn raise(&mut self, with: &mut Steering<'_>, to: Option<u64>) -> Verdict {
        let mut is_last = !self.is_being_written(with);
        let (is_left, verdict) = match self.write_high(with, Purpose::Raise, to) {
            Written::Holds => (!is_last, (Outcome::Applied, String::new())),
            Written::Differs(reason) if is_last => (false, (Outcome::Failed, reason)),
            Written::Differs(reason) => (true, (Outcome::Started, reason)),
            Written::UnderWay => (true, (Outcome::Started, RECLAIMING.into())),
            Written::NotBegun => {
                is_last = false;
                (true, (Outcome::Started, RECLAIMING.into()))
            }
            Written::Refused(verdict) => (false, verdict),
        };
        self.raise = is_left.then_some(Raise { to, is_last });
        self.is_settling &= is_left;
        verdict
    }

    /// Checks whether a limit that was to hold at once does. An earlier write may have overwritten
    /// it.
    pub(super) fn follow_raise(
        &mut self,
        with: &mut Steering<'_>,
        Raise { to, is_last }: Raise,
        usage: &Usage,
    ) {
        if with.writer.is_busy(self.cgroup_id, Purpose::Raise) {
            return;
        }
        let is_settling = self.is_being_written(with);
        match with.fs.limit(&self.cgroup, HIGH) {
            Ok(actual) if actual == to => {
                self.known = actual;
                if !is_settling {
                    (self.raise, self.is_settling) = (None, false);
                }
            }
            Ok(actual) if is_last => self.differs(with, Purpose::Raise, actual, usage),
            Ok(_) => {
                let (outcome, reason) = self.raise(with, to);
                if !matches!(outcome, Outcome::Applied | Outcome::Started) {
                    self.stop(reason);
                }
            }
            Err(error) => self.stop(error.to_string()),
        }
    }
}
