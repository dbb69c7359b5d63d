// SPDX-License-Identifier: Apache-2.0
//! Pauses between attempts to connect.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

/// Pauses that double up to a bound. Half of each is random, so that the agents of a fleet do not
/// reconnect all at once when their controller returns.
pub struct Backoff {
    max: Duration,
    next: Duration,
    random: Box<dyn FnMut() -> f64 + Send>,
}

impl Backoff {
    /// A sequence of pauses of at most `max`; `random` returns numbers from 0 to 1.
    pub fn new(max: Duration, random: impl FnMut() -> f64 + Send + 'static) -> Self {
        Self { max, next: FIRST.min(max), random: Box::new(random) }
    }

    /// The pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.max);
        whole / 2 + (whole / 2).mul_f64((self.random)().clamp(0.0, 1.0))
    }

    /// Makes the next pause the shortest, because a session worked.
    pub fn reset(&mut self) {
        self.next = FIRST.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_bound_and_are_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(1000), || 1.0);
        let pauses: Vec<u128> = (0..6).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        backoff.reset();
        assert_eq!(backoff.pause().as_millis(), 100);
    }

    #[test]
    fn half_of_a_pause_is_random() {
        let mut numbers = [0.0, 0.5, -3.0, 9.0].into_iter();
        let mut backoff = Backoff::new(Duration::from_millis(100), move || numbers.next().unwrap());
        let pauses: Vec<u128> = (0..4).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [50, 75, 50, 100]);
    }

    #[test]
    fn a_short_bound_holds_for_the_first_pause_too() {
        let mut backoff = Backoff::new(Duration::from_millis(10), || 1.0);
        assert_eq!(backoff.pause().as_millis(), 10);
    }
}
