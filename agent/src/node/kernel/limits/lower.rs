// SPDX-License-Identifier: Apache-2.0
//! Limits that are lowered in steps, each after the reclaim that makes room for it.

use super::{HIGH, Limit, Steering, Written, whole_pages};
use crate::node::kernel::limits::writer::{Purpose, WriteError};
use crate::node::kernel::tenant::memory::Usage;

pub(super) const RECLAIM: &str = "memory.reclaim";
/// The number of consecutive steps in which reclaim freed nothing, after which the limit is not
/// lowered further.
const MAX_IDLE_STEPS: u32 = 40;

impl Limit {
    /// Lowers the limit by one step if it is being lowered, or checks a limit that was to hold at
    /// once.
    pub fn step(&mut self, with: &mut Steering<'_>, usage: &Usage) {
        if let Some(raise) = self.raise {
            return self.follow_raise(with, raise, usage);
        }
        let Some(target) = self.target else { return };
        if with.writer.is_busy(self.cgroup_id, Purpose::Lower) || self.is_being_written(with) {
            return;
        }
        match with.fs.limit(&self.cgroup, HIGH) {
            Ok(actual) if actual == self.known || self.is_settling => self.known = actual,
            Ok(actual) => return self.differs(with, Purpose::Lower, actual, usage),
            Err(error) => return self.stop(error.to_string()),
        }
        self.is_settling = false;
        if self.known.is_some_and(|known| known <= target) {
            self.target = None;
            if self.known != Some(target) {
                // A write that was under way lowered the limit further than the new target.
                self.raise(with, Some(target));
            }
            return;
        }
        if usage.floor > target {
            let remark = format!("not lowered to {target}: the floor rose to {}", usage.floor);
            return self.stop(remark);
        }
        if let Some(next) = self.reclaiming.take() {
            let file = with.fs.file(&self.cgroup, RECLAIM);
            return match with.writer.take_result(self.cgroup_id, Purpose::Lower, &file) {
                Some(Ok(())) => self.lower(with, target, next),
                Some(Err(error)) if error.raw_os_error() != Some(libc::EAGAIN) => {
                    self.stop(format!("{RECLAIM}: {error}"));
                }
                _ => self.lower(with, target, next.max(whole_pages(usage.current))),
            };
        }
        let from = self.known.unwrap_or(u64::MAX).min(usage.current.max(target));
        let next = whole_pages(from.saturating_sub(with.step_bytes)).max(target);
        match self.reclaim(with, usage.current, next) {
            Ok(Some(reached)) => self.lower(with, target, reached),
            Ok(None) => {}
            Err(error) => self.stop(error.to_string()),
        }
    }

    /// Reclaims until the cgroup uses `next` bytes. Returns the value to which `memory.high` can be
    /// lowered, or `None` while that is unknown.
    fn reclaim(
        &mut self,
        with: &mut Steering<'_>,
        current: u64,
        next: u64,
    ) -> Result<Option<u64>, WriteError> {
        let file = with.fs.file(&self.cgroup, RECLAIM);
        // Kernels before 5.19 have no such file. There, the write to `memory.high` reclaims.
        if current <= next || !file.exists() {
            return Ok(Some(next));
        }
        let text = (current - next).to_string();
        match with.writer.write(self.cgroup_id, Purpose::Lower, &file, &text) {
            Ok(()) => Ok(Some(next)),
            Err(WriteError::Pending(_)) => {
                self.reclaiming = Some(next);
                Ok(None)
            }
            Err(WriteError::Busy(_)) => Ok(None),
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
        match self.write_high(with, Purpose::Lower, Some(next)) {
            Written::Holds if next == target => self.target = None,
            Written::Holds | Written::UnderWay | Written::NotBegun => {}
            Written::Differs(reason) | Written::Refused((_, reason)) => self.stop(reason),
        }
    }
}
