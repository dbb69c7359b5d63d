// SPDX-License-Identifier: Apache-2.0
//! Wall time, which only leases need, as they last across restarts. Everything else is measured by
//! a clock that cannot be set.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of wall time.
pub trait Clock: Send + Sync {
    /// Time since 1970.
    fn wall(&self) -> Duration;
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
