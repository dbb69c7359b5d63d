// SPDX-License-Identifier: Apache-2.0
//! The wall clock, and how far a node's time is behind it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time since 1970 that never decreases.
pub trait Clock: Send {
    /// The present time.
    fn now(&self) -> Duration;
}

/// The host's clock: read once, then advanced by the monotonic clock, so that it never jumps.
#[derive(Debug)]
pub struct SystemClock {
    began: Instant,
    began_at: Duration,
}

impl Default for SystemClock {
    fn default() -> Self {
        let began_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), began_at }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.began_at + self.began.elapsed()
    }
}

/// How well a node in real time keeps up with the clock. Nothing is skipped: what the host could
/// not simulate in time is simulated later, and node time stays behind until then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// How far node time was behind the clock after the last tick.
    pub behind: Duration,
    /// The greatest value of `behind` so far.
    pub worst: Duration,
    /// Ticks that ended before node time had caught up.
    pub late_ticks_total: u64,
}

impl Lag {
    pub(super) fn record(&mut self, behind: Duration, late: bool) {
        self.behind = behind;
        self.worst = self.worst.max(behind);
        self.late_ticks_total += u64::from(late);
    }
}
