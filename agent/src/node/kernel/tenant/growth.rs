// SPDX-License-Identifier: Apache-2.0
//! How fast the memory of a tenant grows that cannot be reclaimed, and when to look at it again.
//!
//! A limit at the floor leaves a margin above this memory. A tenant whose memory grows by more than
//! the margin before the limit is lifted is throttled by the kernel until then. The limit is therefore
//! lifted ahead of the growth: memory that grew by some bytes since the last look will, at the same
//! rate, have grown by as much at the next one, and the margin should still be free then. A limit
//! that is lifted by `margin + growth` above this memory has that property, and the growth adds
//! nothing once the memory is steady.

use super::memory::Usage;
use std::time::Duration;

/// Time between two looks at a limit within reach of the floor. Observations count as looks, so that
/// few tenants are read twice if the controller's interval is as short.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Growth that is assumed possible between two looks: what about one CPU can fault in, in pages of
/// 4 KiB. A limit further above the floor than this per second is not within reach yet, so nothing
/// is read for it.
const FASTEST_PER_SECOND: u64 = 1 << 30;

/// What was last seen of the memory of a tenant that cannot be reclaimed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Growth {
    /// When it was seen, and what was used at that time.
    seen: Option<(Duration, Usage)>,
    /// When a look was last tried.
    looked: Option<Duration>,
    /// Bytes by which it grows between two looks.
    per_look: u64,
}

impl Growth {
    /// Whether the floor may reach a limit of `high` bytes at `now`, so that it has to be read.
    #[must_use]
    pub fn is_due(&self, now: Duration, high: u64) -> bool {
        if self.looked.is_some_and(|then| now.saturating_sub(then) < LOOK_INTERVAL) {
            return false;
        }
        let Some((then, usage)) = &self.seen else { return true };
        let fastest = now.saturating_sub(*then).as_secs_f64() * FASTEST_PER_SECOND as f64;
        usage.floor as f64 + fastest + self.per_look as f64 >= high as f64
    }

    /// Records that a look is tried at `now`. If it fails, the next one is due as after any other.
    pub fn looks(&mut self, now: Duration) {
        self.looked = Some(now);
    }

    /// Takes what was read at `now`. Returns the bytes by which the memory will have grown at the
    /// next look.
    pub fn saw(&mut self, now: Duration, usage: &Usage) -> u64 {
        self.looks(now);
        let Some((then, before)) = &self.seen else {
            self.seen = Some((now, *usage));
            return 0;
        };
        let past = now.saturating_sub(*then);
        // The rate over a shorter time would be that of single allocations.
        if past >= LOOK_INTERVAL / 2 {
            let grown = usage.unreclaimable.saturating_sub(before.unreclaimable);
            let looks = past.as_secs_f64() / LOOK_INTERVAL.as_secs_f64();
            self.per_look = (grown as f64 / looks) as u64;
            self.seen = Some((now, *usage));
        }
        self.per_look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(unreclaimable: u64) -> Usage {
        Usage { unreclaimable, floor: unreclaimable + 100, ..Usage::default() }
    }

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn growth_is_per_second_whatever_the_time_between_two_looks() {
        let mut growth = Growth::default();
        assert_eq!(growth.saw(at(0), &usage(1000)), 0);
        assert_eq!(growth.saw(at(1000), &usage(1500)), 500);
        assert_eq!(growth.saw(at(1010), &usage(1600)), 500, "too short a time for a rate");
        assert_eq!(growth.saw(at(3000), &usage(1900)), 200);
        assert_eq!(growth.saw(at(4000), &usage(900)), 0, "memory that was freed");
    }

    #[test]
    fn a_limit_is_looked_at_when_the_fastest_growth_could_reach_it() {
        let mut growth = Growth::default();
        assert!(growth.is_due(at(0), u64::MAX), "nothing is known yet");
        growth.saw(at(0), &usage(0));
        assert!(!growth.is_due(at(950), 100));
        assert!(growth.is_due(at(1000), 100));
        let high = 100 + 10 * FASTEST_PER_SECOND;
        assert!(!growth.is_due(at(9000), high) && growth.is_due(at(10_000), high));
    }
}
