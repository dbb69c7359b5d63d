// SPDX-License-Identifier: Apache-2.0
//! Selects which requests of a simulation count: all after a warm-up, optionally divided into
//! windows.

use crate::error::{Error, Result};

/// Largest number of windows of one simulation.
pub const MAX_WINDOWS: u64 = 1_000_000;

/// Which requests are counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Number of requests at the start that fill the cache and are not counted.
    pub warmup_requests: u64,
    /// Requests per window, 1 or more; `None` for no windows.
    pub window_requests: Option<u64>,
}

/// Counts of consecutive requests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Number of requests in the window.
    pub requests: u64,
    /// Number of those requests that missed.
    pub misses: u64,
}

impl Measure {
    fn check(self) -> Result<()> {
        match self.window_requests {
            Some(0) => Err(Error::argument("window", "0 requests: must be 1 or more")),
            _ => Ok(()),
        }
    }

    /// Returns the windows of a trace of `requests`, with 0 misses. The last one may be shorter.
    /// Without [`Self::window_requests`] the list is empty.
    ///
    /// # Errors
    /// [`Error::Argument`] when the window is 0, there are more than [`MAX_WINDOWS`] or the warm-up
    /// takes every request.
    pub fn windows_of(self, requests: u64) -> Result<Vec<Window>> {
        self.check()?;
        if requests <= self.warmup_requests {
            return Err(nothing_left(self.warmup_requests, requests));
        }
        let Some(length) = self.window_requests else {
            return Ok(Vec::new());
        };
        let measured = requests - self.warmup_requests;
        let count = measured.div_ceil(length);
        if count > MAX_WINDOWS {
            return Err(too_many(length));
        }
        let window = |i| Window { requests: length.min(measured - i * length), misses: 0 };
        Ok((0..count).map(window).collect())
    }
}

fn nothing_left(warmup: u64, requests: u64) -> Error {
    let message = format!("{warmup} requests: the trace has {requests}, so that none would count");
    Error::argument("warmup", message)
}

fn too_many(length: u64) -> Error {
    Error::argument("window", format!("{length} requests: makes more than {MAX_WINDOWS} windows"))
}

/// What begins after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The measurement and its first window begin.
    WarmedUp,
    /// The next window begins.
    WindowFull,
}

/// The position of a simulation relative to the marks of a [`Measure`].
pub(crate) struct WindowClock {
    measure: Measure,
    requests: u64,
    /// Number of requests after which the next mark is reached; `None` if there are no more marks.
    next_mark: Option<u64>,
    windows: u64,
}

impl WindowClock {
    /// Creates a clock at the first request.
    ///
    /// # Errors
    /// [`Error::Argument`] when the window is 0 requests.
    pub(crate) fn new(measure: Measure) -> Result<Self> {
        measure.check()?;
        let next_mark = match measure.warmup_requests {
            0 => measure.window_requests,
            warmup => Some(warmup),
        };
        Ok(Self { measure, requests: 0, next_mark, windows: 0 })
    }

    /// Returns how many of the next `count` requests come before the next mark. It is at least 1 if
    /// `count` is.
    pub(crate) fn within(&self, count: usize) -> usize {
        let left = self.next_mark.map_or(u64::MAX, |mark| mark - self.requests);
        usize::try_from(left).map_or(count, |left| left.min(count))
    }

    /// Advances by `count` requests, which must be at most [`Self::within`]. Returns the mark that
    /// is reached, if any.
    ///
    /// # Errors
    /// [`Error::Argument`] when there are more than [`MAX_WINDOWS`].
    pub(crate) fn advance(&mut self, count: u64) -> Result<Option<Mark>> {
        self.requests += count;
        if self.next_mark != Some(self.requests) {
            return Ok(None);
        }
        self.next_mark = self.measure.window_requests.and_then(|w| self.requests.checked_add(w));
        if self.requests == self.measure.warmup_requests {
            return Ok(Some(Mark::WarmedUp));
        }
        self.windows += 1;
        match self.windows > MAX_WINDOWS {
            true => Err(too_many(self.measure.window_requests.unwrap_or_default())),
            false => Ok(Some(Mark::WindowFull)),
        }
    }

    /// Returns, at the end of the trace, whether an unfinished window has requests in it.
    ///
    /// # Errors
    /// [`Error::Argument`] when the warm-up took every request.
    pub(crate) fn finish(&self) -> Result<bool> {
        let Measure { warmup_requests, window_requests } = self.measure;
        if warmup_requests > 0 && self.requests <= warmup_requests {
            return Err(nothing_left(warmup_requests, self.requests));
        }
        let measured = self.requests - warmup_requests;
        Ok(window_requests.is_some_and(|window| !measured.is_multiple_of(window)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the lengths of the windows of a run over `requests`, fed in `pieces`.
    fn run(measure: Measure, requests: u64, pieces: &[usize]) -> Result<Vec<u64>> {
        let mut clock = WindowClock::new(measure)?;
        let (mut left, mut open, mut windows) = (requests, 0, Vec::new());
        for &piece in pieces.iter().cycle() {
            let count = clock.within(piece.min(left as usize));
            left -= count as u64;
            open += count as u64;
            match clock.advance(count as u64)? {
                Some(Mark::WarmedUp) => open = 0,
                Some(Mark::WindowFull) => windows.push(std::mem::take(&mut open)),
                None => {}
            }
            if left == 0 {
                break;
            }
        }
        if clock.finish()? {
            windows.push(open);
        }
        Ok(windows)
    }

    proptest! {
        #[test]
        fn a_run_in_pieces_has_the_windows_of_the_whole(
            warmup_requests in 0u64..50,
            window_requests in prop::option::of(1u64..40),
            requests in 1u64..400,
            pieces in prop::collection::vec(1usize..70, 1..5),
        ) {
            let measure = Measure { warmup_requests, window_requests };
            let whole = measure.windows_of(requests);
            let pieces = run(measure, requests, &pieces);
            match whole {
                Ok(windows) => {
                    let lengths: Vec<u64> = windows.iter().map(|w| w.requests).collect();
                    if window_requests.is_some() {
                        prop_assert_eq!(lengths.iter().sum::<u64>(), requests - warmup_requests);
                    }
                    prop_assert_eq!(pieces.unwrap(), lengths);
                }
                Err(e) => prop_assert_eq!(pieces.unwrap_err().to_string(), e.to_string()),
            }
        }
    }

    #[test]
    fn invalid_measurements_are_refused() {
        let refused = |warmup_requests, window_requests, requests| {
            let measure = Measure { warmup_requests, window_requests };
            measure.windows_of(requests).unwrap_err().to_string()
        };
        assert_eq!(refused(0, Some(0), 5), "window: 0 requests: must be 1 or more");
        assert!(refused(5, None, 5).starts_with("warmup: 5 requests: the trace has 5"));
        assert!(refused(0, Some(1), MAX_WINDOWS + 1).starts_with("window: 1 requests: makes more"));
    }
}
