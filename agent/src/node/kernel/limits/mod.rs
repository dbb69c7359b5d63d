// SPDX-License-Identifier: Apache-2.0
//! The limit of one tenant: `memory.high`, which is raised at once and lowered in steps.
//!
//! The newest request wins. A raise is written even while a lowering is still under way, and is
//! confirmed when that has ended.
//!
//! Each step reclaims first, through `memory.reclaim`, and lowers `memory.high` after that, so that
//! the tenant is not throttled for memory that it uses already. A step never goes below the floor,
//! which is read again for each step. `memory.max` belongs to the operator: it is never written,
//! and a limit above it is refused. A limit set by another program is overwritten once, see
//! [`contest`].

pub mod contest;
mod lower;
mod raise;
pub(in crate::node::kernel) mod units;
pub mod writer;

use crate::cgroup::fs::{CgroupFs, MAX};
use crate::node::kernel::limits::writer::{Purpose, WriteError, Writer};
use crate::node::kernel::tenant::memory::Usage;
use crate::wire::result::Outcome;
use contest::Contested;
use raise::Raise;
use std::io;
use std::path::Path;

const HIGH: &str = "memory.high";
const RECLAIMING: &str = "the kernel is still reclaiming";
const PAGE_BYTES: u64 = 4096;

/// What an operation on a limit needs.
pub struct Steering<'a> {
    /// The cgroup hierarchy.
    pub fs: &'a CgroupFs,
    /// Writes to cgroup files.
    pub writer: &'a mut Writer,
    /// The size of a step, bytes.
    pub step_bytes: u64,
}

/// The outcome of an attempt, and the reason for it.
pub type Verdict = (Outcome, String);

/// The limit of one tenant.
#[derive(Debug, Clone)]
pub struct Limit {
    cgroup: String,
    cgroup_id: u64,
    /// `memory.high` as it was last read or written here; `None` means no limit.
    known: Option<u64>,
    /// The limit at which a lowering ends; `None` if the limit is not being lowered.
    target: Option<u64>,
    /// The value to which the limit can be lowered once the reclaim under way has ended.
    reclaiming: Option<u64>,
    /// A limit that was written to hold at once and has yet to be confirmed.
    raise: Option<Raise>,
    idle_steps: u32,
    /// A write was under way when `known` was read, so that `known` may be out of date.
    is_settling: bool,
    /// The limit that was last requested, while this agent maintains it. `Some(None)` means no
    /// limit.
    wish: Option<Option<u64>>,
    contested: Contested,
    /// What another program did to the limit, or what ended the lowering.
    remark: String,
}

/// The result of a write of the limit.
enum Written {
    /// The file contains the written value.
    Holds,
    /// The file contains another value; with a message.
    Differs(String),
    /// The kernel is still reclaiming. The limit holds since the reclaim began.
    UnderWay,
    /// The write was not begun: too many others are under way.
    NotBegun,
    /// The operating system refused the write.
    Refused(Verdict),
}

impl Limit {
    /// Reads the limit of a cgroup.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn read(fs: &CgroupFs, cgroup: &str, cgroup_id: u64) -> io::Result<Self> {
        let known = fs.limit(cgroup, HIGH)?;
        Ok(Self {
            cgroup: cgroup.to_owned(),
            cgroup_id,
            known,
            target: None,
            reclaiming: None,
            raise: None,
            idle_steps: 0,
            is_settling: true,
            wish: None,
            contested: Contested::default(),
            remark: String::new(),
        })
    }

    /// `memory.high` as last read or written; `None` means no limit.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.known
    }

    /// The limit at which a lowering under way ends; `None` if there is none.
    #[must_use]
    pub fn target(&self) -> Option<u64> {
        self.target
    }

    /// Whether the limit has yet to reach its target.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.target.is_some() || self.raise.is_some()
    }

    /// What another program did to the limit, or what ended the lowering; empty if neither
    /// happened.
    #[must_use]
    pub fn remark(&self) -> &str {
        &self.remark
    }

    /// Sets the limit; `None` removes it. A refused request does not affect a change under way.
    pub fn set(&mut self, with: &mut Steering<'_>, wanted: Option<u64>, usage: &Usage) -> Verdict {
        // This is queried before the file is read, as a write under way may change the file after
        // that.
        let is_settling = self.is_being_written(with);
        let (actual, max) = match self.read_both(with.fs) {
            Ok(both) => both,
            Err(verdict) => return verdict,
        };
        if let Some(reason) = wanted.and_then(|wanted| refusal(wanted, usage, max)) {
            return (Outcome::Refused, reason);
        }
        if wanted.is_some() && self.target == wanted {
            // The lowering goes on, so that nothing is reclaimed twice for it.
            return (Outcome::Started, String::new());
        }
        self.forget();
        self.contested.begin_anew();
        (self.known, self.is_settling) = (actual, is_settling);
        self.wish = Some(wanted);
        if wanted == actual && !is_settling {
            return (Outcome::Unchanged, String::new());
        }
        self.go(with, wanted, usage)
    }

    /// Sets a limit that differs from the known one: at once if that takes no memory from the
    /// tenant, otherwise in steps.
    fn go(&mut self, with: &mut Steering<'_>, wanted: Option<u64>, usage: &Usage) -> Verdict {
        let known = self.known;
        let is_below = |bytes: u64| known.is_none_or(|high| bytes <= high);
        match wanted.filter(|&bytes| bytes < usage.current && is_below(bytes)) {
            Some(_) => {
                self.target = wanted;
                self.step(with, usage);
                match self.target {
                    Some(_) => (Outcome::Started, String::new()),
                    None if self.known == wanted => (Outcome::Applied, String::new()),
                    None => (Outcome::Failed, self.remark.clone()),
                }
            }
            None => self.raise(with, wanted),
        }
    }

    /// Discards the state of the last request when a new one arrives.
    fn forget(&mut self) {
        self.remark.clear();
        (self.target, self.reclaiming, self.raise) = (None, None, None);
        self.idle_steps = 0;
    }

    /// Whether a write of `memory.high` is under way. A reclaim alone does not change the limit.
    fn is_being_written(&self, with: &mut Steering<'_>) -> bool {
        with.writer.is_writing(self.cgroup_id, &with.fs.file(&self.cgroup, HIGH))
    }

    /// Checks whether another program changed the limit. If none did, does what [`Limit::lift`] does.
    /// `ours` is true if this agent or an earlier one set the limit.
    pub fn check(
        &mut self,
        with: &mut Steering<'_>,
        usage: &Usage,
        growth: u64,
        ours: bool,
    ) -> io::Result<()> {
        if self.raise.is_some() || self.is_being_written(with) {
            return Ok(());
        }
        let actual = with.fs.limit(&self.cgroup, HIGH)?;
        if std::mem::take(&mut self.is_settling) {
            self.known = actual;
        }
        self.own(ours);
        if actual != self.known {
            self.differs(with, Purpose::Lower, actual, usage);
        } else if self.is_within(usage, growth) {
            self.lift_to(with, usage.floor, growth);
        }
        Ok(())
    }

    /// Raises a limit that this agent or an earlier one set if the floor rises above it before the
    /// next look, in which time it grows by `growth` bytes. A limit that another program changed is
    /// left to [`Limit::check`].
    pub fn lift(&mut self, with: &mut Steering<'_>, usage: &Usage, growth: u64) -> io::Result<()> {
        self.own(true);
        if self.raise.is_some() || !self.is_within(usage, growth) || self.is_being_written(with) {
            return Ok(());
        }
        if with.fs.limit(&self.cgroup, HIGH)? == self.known {
            self.lift_to(with, usage.floor, growth);
        }
        Ok(())
    }

    /// Whether this agent maintains the limit, and the floor reaches it with `growth` more bytes.
    fn is_within(&self, usage: &Usage, growth: u64) -> bool {
        let reached = usage.floor.saturating_add(growth);
        self.wish.is_some() && self.known.is_some_and(|known| known < reached)
    }

    fn lift_to(&mut self, with: &mut Steering<'_>, floor: u64, growth: u64) {
        let limit = Some(whole_pages(floor.saturating_add(growth)));
        let (outcome, _) = self.raise(with, limit);
        if matches!(outcome, Outcome::Applied | Outcome::Started) {
            (self.target, self.reclaiming) = (None, None);
            self.wish = Some(limit);
            self.remark = format!("the floor rose to {floor}: the limit went with it");
        }
    }

    /// Decides, while the limit is not being lowered, whether this agent maintains it. It maintains
    /// a limit other than the tenant's first one (`ours`), even if an earlier agent set it; the
    /// first limit is the operator's.
    fn own(&mut self, ours: bool) {
        if self.target.is_none() && self.contested.may_be_ours() {
            self.wish = ours.then(|| self.wish.unwrap_or(self.known));
        }
    }

    fn stop(&mut self, remark: String) {
        (self.target, self.reclaiming, self.raise) = (None, None, None);
        self.wish = self.wish.map(|_| self.known);
        self.remark = remark;
    }

    /// Writes `memory.high` and reads it back.
    fn write_high(
        &mut self,
        with: &mut Steering<'_>,
        purpose: Purpose,
        wanted: Option<u64>,
    ) -> Written {
        let text = shown(wanted);
        let file = with.fs.file(&self.cgroup, HIGH);
        match with.writer.write(self.cgroup_id, purpose, &file, &text) {
            // The limit holds as soon as the kernel starts to reclaim for it.
            Err(WriteError::Pending(_)) => {
                self.known = wanted;
                return Written::UnderWay;
            }
            Err(WriteError::Busy(_)) => return Written::NotBegun,
            Err(error) if error.is_gone() => {
                return Written::Refused((Outcome::Gone, error.to_string()));
            }
            Err(error) => return Written::Refused((Outcome::Failed, error.to_string())),
            Ok(()) => {}
        }
        match with.fs.limit(&self.cgroup, HIGH) {
            Ok(actual) => {
                self.known = actual;
                if actual == wanted {
                    return Written::Holds;
                }
                Written::Differs(format!("{HIGH} is {} after {text} was written", shown(actual)))
            }
            Err(error) => Written::Refused(failed(&file, &error)),
        }
    }

    fn read_both(&self, fs: &CgroupFs) -> Result<(Option<u64>, Option<u64>), Verdict> {
        let read = |name: &str| {
            let found = fs.limit(&self.cgroup, name);
            found.map_err(|error| failed(&fs.file(&self.cgroup, name), &error))
        };
        Ok((read(HIGH)?, read("memory.max")?))
    }
}

/// The reason why a limit is impossible; `None` if it is possible.
fn refusal(wanted: u64, usage: &Usage, max: Option<u64>) -> Option<String> {
    if !wanted.is_multiple_of(PAGE_BYTES) {
        return Some(format!("{wanted} is not whole pages of {PAGE_BYTES}"));
    }
    if wanted < usage.floor {
        return Some(format!("{wanted} is below the floor of {}", usage.floor));
    }
    let max = max.filter(|&max| wanted > max)?;
    Some(format!("{wanted} is above memory.max, which is {max}"))
}

fn failed(file: &Path, error: &io::Error) -> Verdict {
    let gone = [Some(libc::ENOENT), Some(libc::ENODEV)].contains(&error.raw_os_error());
    // The error for a text that is not a number names its file already.
    let reason = match error.raw_os_error() {
        Some(_) => format!("{}: {error}", file.display()),
        None => error.to_string(),
    };
    (if gone { Outcome::Gone } else { Outcome::Failed }, reason)
}

fn whole_pages(bytes: u64) -> u64 {
    bytes / PAGE_BYTES * PAGE_BYTES
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or(MAX.into(), |bytes| bytes.to_string())
}

#[cfg(test)]
mod tests;
