// SPDX-License-Identifier: Apache-2.0
//! The limit of one tenant: `memory.high`, raised at once and lowered in steps.
//!
//! A step reclaims first, by `memory.reclaim`, and lowers `memory.high` after that, so that the
//! tenant is not throttled for what it uses already. It never goes below the floor, which is read
//! anew for each step. `memory.max` belongs to the operator: it is never written, and a limit above
//! it is refused. A change by someone else ends what is under way and is left alone until the next
//! action for this tenant.

use super::cgroup_fs::{CgroupFs, MAX};
use super::memory::Usage;
use super::writer::{WriteError, Writer};
use crate::wire::result::Outcome;
use std::io;
use std::path::Path;

const HIGH: &str = "memory.high";
const RECLAIM: &str = "memory.reclaim";
const PAGE_BYTES: u64 = 4096;
/// Steps in a row that got nothing out of reclaim, after which a limit is not lowered further.
const MAX_IDLE_STEPS: u32 = 40;

/// What steering a limit takes.
pub struct Steering<'a> {
    /// The cgroups.
    pub fs: &'a CgroupFs,
    /// Writes to them.
    pub writer: &'a mut Writer,
    /// Bytes of a step.
    pub step_bytes: u64,
}

/// What became of an attempt, and why.
pub type Verdict = (Outcome, String);

/// The limit of one tenant.
#[derive(Debug, Clone)]
pub struct Limit {
    cgroup: String,
    cgroup_id: u64,
    /// `memory.high` as it was last seen or set here; `None` is no limit.
    known: Option<u64>,
    /// Where a limit that is being lowered goes.
    target: Option<u64>,
    idle_steps: u32,
    /// What someone else did, or what ended the lowering.
    remark: String,
}

impl Limit {
    /// The limit of a cgroup as it is.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(fs: &CgroupFs, cgroup: &str, cgroup_id: u64) -> io::Result<Self> {
        let known = fs.limit(cgroup, HIGH)?;
        let cgroup = cgroup.to_owned();
        Ok(Self { cgroup, cgroup_id, known, target: None, idle_steps: 0, remark: String::new() })
    }

    /// `memory.high` as last seen or set.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.known
    }

    /// Where it is going, when it is being lowered.
    #[must_use]
    pub fn target(&self) -> Option<u64> {
        self.target
    }

    /// What someone else did to it, or what ended the lowering; empty when there is nothing.
    #[must_use]
    pub fn remark(&self) -> &str {
        &self.remark
    }

    /// Sets the limit; `None` takes it away.
    pub fn set(&mut self, with: &mut Steering<'_>, wanted: Option<u64>, usage: &Usage) -> Verdict {
        let (actual, max) = match self.read_both(with.fs) {
            Ok(both) => both,
            Err(verdict) => return verdict,
        };
        self.remark.clear();
        self.target = None;
        self.idle_steps = 0;
        self.known = actual;
        if let Some(reason) = wanted.and_then(|wanted| refusal(wanted, usage, max)) {
            return (Outcome::Refused, reason);
        }
        if wanted == actual {
            return (Outcome::Unchanged, String::new());
        }
        match wanted {
            Some(bytes) if bytes < usage.current => {
                self.target = wanted;
                self.step(with, usage);
                match self.target {
                    Some(_) => (Outcome::Started, String::new()),
                    None if self.known == wanted => (Outcome::Applied, String::new()),
                    None => (Outcome::Failed, self.remark.clone()),
                }
            }
            _ => self.write_high(with, wanted),
        }
    }

    /// Sets what the cgroup had at first, whatever it uses: it was the operator's.
    pub fn give_back(&mut self, with: &mut Steering<'_>, initial: Option<u64>) -> Verdict {
        self.remark.clear();
        self.target = None;
        if self.known == initial {
            return (Outcome::Unchanged, String::new());
        }
        self.write_high(with, initial)
    }

    /// Looks whether someone else changed it; and, when that is not so and the floor rose above a
    /// limit that this agent set (`ours`), lifts it.
    pub fn check(&mut self, with: &mut Steering<'_>, usage: &Usage, ours: bool) -> io::Result<()> {
        if with.writer.is_pending(self.cgroup_id) {
            return Ok(());
        }
        let actual = with.fs.limit(&self.cgroup, HIGH)?;
        if actual != self.known {
            self.remark = format!(
                "{HIGH} was set to {} by someone else (it was {}); left alone",
                shown(actual),
                shown(self.known)
            );
            (self.known, self.target) = (actual, None);
        } else if ours && self.remark.is_empty() {
            let below = self.known.is_some_and(|known| known < usage.floor);
            if below && matches!(self.write_high(with, Some(usage.floor)).0, Outcome::Applied) {
                self.target = None;
                self.remark = format!("the floor rose to {}: the limit went with it", usage.floor);
            }
        }
        Ok(())
    }

    /// Lowers the limit by a step, when it is to be lowered.
    pub fn step(&mut self, with: &mut Steering<'_>, usage: &Usage) {
        let Some(target) = self.target else { return };
        if with.writer.is_pending(self.cgroup_id) {
            return;
        }
        match with.fs.limit(&self.cgroup, HIGH) {
            Ok(actual) if actual == self.known => {}
            Ok(actual) => {
                let remark =
                    format!("{HIGH} was set to {} by someone else; left alone", shown(actual));
                self.known = actual;
                return self.stop(remark);
            }
            Err(error) => return self.stop(error.to_string()),
        }
        if usage.floor > target {
            let remark = format!("not lowered to {target}: the floor rose to {}", usage.floor);
            return self.stop(remark);
        }
        let from = self.known.unwrap_or(u64::MAX).min(usage.current.max(target));
        let next = whole_pages(from.saturating_sub(with.step_bytes)).max(target);
        match self.reclaim(with, usage.current, next) {
            Ok(Some(reached)) => self.lower(with, target, reached),
            Ok(None) => {}
            Err(error) => self.stop(error.to_string()),
        }
    }

    /// Reclaims down to `next`; returns what `memory.high` can be lowered to, none when a write is
    /// still under way.
    fn reclaim(
        &mut self,
        with: &mut Steering<'_>,
        current: u64,
        next: u64,
    ) -> Result<Option<u64>, WriteError> {
        let file = with.fs.file(&self.cgroup, RECLAIM);
        // Before 5.19 there is no such file: writing `memory.high` reclaims as well.
        if current <= next || !file.exists() {
            return Ok(Some(next));
        }
        match with.writer.write(self.cgroup_id, &file, &(current - next).to_string()) {
            Ok(()) => Ok(Some(next)),
            Err(WriteError::Pending(_)) => Ok(None),
            Err(error) if error.is_short() => {
                let left = with.fs.number(&self.cgroup, "memory.current").unwrap_or(current);
                Ok(Some(next.max(whole_pages(left))))
            }
            Err(error) => Err(error),
        }
    }

    fn lower(&mut self, with: &mut Steering<'_>, target: u64, next: u64) {
        if self.known.is_some_and(|known| next >= known) {
            self.idle_steps += 1;
            if self.idle_steps >= MAX_IDLE_STEPS {
                self.stop(format!("not lowered to {target}: nothing more can be reclaimed"));
            }
            return;
        }
        self.idle_steps = 0;
        match self.write_high(with, Some(next)) {
            (Outcome::Applied, _) if next == target => self.target = None,
            (Outcome::Applied | Outcome::Started, _) => {}
            (_, reason) => self.stop(reason),
        }
    }

    fn stop(&mut self, remark: String) {
        self.target = None;
        self.remark = remark;
    }

    /// Writes `memory.high` and reads it back.
    fn write_high(&mut self, with: &mut Steering<'_>, wanted: Option<u64>) -> Verdict {
        let text = shown(wanted);
        let file = with.fs.file(&self.cgroup, HIGH);
        match with.writer.write(self.cgroup_id, &file, &text) {
            // The limit holds as soon as the kernel starts to reclaim for it.
            Err(WriteError::Pending(_)) => {
                self.known = wanted;
                return (Outcome::Started, "the kernel is still reclaiming".into());
            }
            Err(error) if error.is_gone() => return (Outcome::Gone, error.to_string()),
            Err(error) => return (Outcome::Failed, error.to_string()),
            Ok(()) => {}
        }
        match with.fs.limit(&self.cgroup, HIGH) {
            Ok(actual) => {
                self.known = actual;
                if actual == wanted {
                    return (Outcome::Applied, String::new());
                }
                (Outcome::Failed, format!("{HIGH} is {} after {text} was written", shown(actual)))
            }
            Err(error) => failed(&file, &error),
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

/// Why a limit cannot be, if so.
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
    // A text that is no number is told with its file already.
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
#[path = "limits_tests.rs"]
mod tests;
