// SPDX-License-Identifier: Apache-2.0
//! One access pattern of a synthetic trace, and its textual form `KIND,KEY=VALUE,...`.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Largest number of pages of a pattern.
pub const MAX_PAGES: u64 = 1 << 40;
const PAGES: RangeInclusive<u64> = 1..=MAX_PAGES;
const EVERY: RangeInclusive<u64> = 1..=MAX_PAGES;
const ALPHA: RangeInclusive<f64> = 0.0..=10.0;
const WEIGHT: RangeInclusive<f64> = 1e-9..=1e9;

/// The pages that the requests of a component access.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Independent draws. The page of rank r has a probability proportional to r^-`alpha`.
    Zipf {
        /// Number of pages.
        pages: u64,
        /// Exponent of the popularity.
        alpha: f64,
    },
    /// Independent draws from equally popular pages.
    Uniform {
        /// Number of pages.
        pages: u64,
    },
    /// All pages in order, repeatedly.
    Loop {
        /// Number of pages.
        pages: u64,
    },
    /// Pages in order, each once.
    Scan,
    /// Draws as in [`Self::Zipf`] from a working set that moves to later pages.
    Shifting {
        /// Pages in the working set.
        pages: u64,
        /// Exponent of the popularity within the working set.
        alpha: f64,
        /// Number of requests of this component between two moves.
        every: u64,
        /// Number of pages by which the working set moves.
        by: u64,
    },
}

/// A pattern and its share in a mixture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Component {
    /// The access pattern.
    pub pattern: Pattern,
    /// Share of the requests, relative to the weights of the other components.
    pub weight: f64,
}

const KINDS: &str = "zipf,pages=N[,alpha=A]; uniform,pages=N; loop,pages=N; scan; \
                     shifting,pages=N,every=REQUESTS,by=PAGES[,alpha=A]; each also with weight=W";

/// The keys of a component's text that have not been used yet.
struct Keys<'a> {
    text: &'a str,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    fn error(&self, message: impl Display) -> Error {
        Error::argument("mix", format!("{:?}: {message}", self.text))
    }

    fn read(text: &'a str) -> Result<(&'a str, Self)> {
        let mut parts = text.split(',').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let mut keys = Self { text, left: Vec::new() };
        if text.contains(char::is_control) {
            return Err(keys.error("has control characters"));
        }
        for part in parts {
            let Some((key, value)) = part.split_once('=') else {
                return Err(keys.error(format!("{part:?} is not KEY=VALUE")));
            };
            if keys.left.iter().any(|(known, _)| *known == key) {
                return Err(keys.error(format!("{key} is given twice")));
            }
            keys.left.push((key, value));
        }
        Ok((kind, keys))
    }

    /// Removes `key` and returns its value, which must be within `range`. If the key is absent,
    /// returns the default.
    fn take<T: FromStr + PartialOrd + Display>(
        &mut self,
        key: &str,
        range: &RangeInclusive<T>,
        default: Option<T>,
    ) -> Result<T> {
        let (low, high) = (range.start(), range.end());
        let Some(at) = self.left.iter().position(|(known, _)| *known == key) else {
            return default.ok_or_else(|| self.error(format!("needs {key}={low} to {high}")));
        };
        let (_, value) = self.left.remove(at);
        let within = value.parse().ok().filter(|number| range.contains(number));
        within.ok_or_else(|| self.error(format!("{key}={value} is not in {low} to {high}")))
    }
}

impl FromStr for Component {
    type Err = Error;

    /// Parses `KIND,KEY=VALUE,...`.
    ///
    /// # Errors
    /// [`Error::Argument`] that names the key and its range, or lists the kinds.
    fn from_str(text: &str) -> Result<Self> {
        let (kind, mut keys) = Keys::read(text)?;
        let weight = keys.take("weight", &WEIGHT, Some(1.0))?;
        let pattern = match kind {
            "zipf" => Pattern::Zipf {
                pages: keys.take("pages", &PAGES, None)?,
                alpha: keys.take("alpha", &ALPHA, Some(1.0))?,
            },
            "uniform" => Pattern::Uniform { pages: keys.take("pages", &PAGES, None)? },
            "loop" => Pattern::Loop { pages: keys.take("pages", &PAGES, None)? },
            "scan" => Pattern::Scan,
            "shifting" => Pattern::Shifting {
                pages: keys.take("pages", &PAGES, None)?,
                alpha: keys.take("alpha", &ALPHA, Some(0.0))?,
                every: keys.take("every", &EVERY, None)?,
                by: keys.take("by", &PAGES, None)?,
            },
            _ => return Err(keys.error(format!("no such pattern; known: {KINDS}"))),
        };
        match keys.left.first() {
            Some((key, _)) => Err(keys.error(format!("{kind} has no {key}; known: {KINDS}"))),
            None => Ok(Self { pattern, weight }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Component> {
        text.parse()
    }

    #[test]
    fn every_kind_is_read_with_its_defaults() {
        for (text, pattern, weight) in [
            ("zipf,pages=10", Pattern::Zipf { pages: 10, alpha: 1.0 }, 1.0),
            ("zipf, alpha=0.8, pages=10", Pattern::Zipf { pages: 10, alpha: 0.8 }, 1.0),
            ("uniform,pages=7,weight=3", Pattern::Uniform { pages: 7 }, 3.0),
            ("loop,pages=7,weight=0.5", Pattern::Loop { pages: 7 }, 0.5),
            ("scan", Pattern::Scan, 1.0),
            (
                "shifting,pages=5,every=100,by=2",
                Pattern::Shifting { pages: 5, alpha: 0.0, every: 100, by: 2 },
                1.0,
            ),
        ] {
            assert_eq!(parse(text).unwrap(), Component { pattern, weight }, "{text}");
        }
    }

    #[test]
    fn refusals_name_the_key_and_its_range() {
        for (text, part) in [
            ("", "no such pattern; known: zipf"),
            ("zipff,pages=1", "no such pattern; known: zipf"),
            ("zipf", "needs pages=1 to 1099511627776"),
            ("zipf,pages=0", "pages=0 is not in 1 to 1099511627776"),
            ("zipf,pages=-1", "pages=-1 is not in 1 to"),
            ("zipf,pages=1,alpha=nan", "alpha=nan is not in 0 to 10"),
            ("zipf,pages=1,alpha=11", "alpha=11 is not in 0 to 10"),
            ("zipf,pages=1,pages=2", "pages is given twice"),
            ("zipf,pages", "\"pages\" is not KEY=VALUE"),
            ("scan,pages=4", "scan has no pages"),
            ("loop,pages=4,weight=0", "weight=0 is not in"),
            ("shifting,pages=4,by=1", "needs every=1 to"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.starts_with("mix: "), "{message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(
            text in "(zipf|loop|shifting|scan|x)(,(pages|every|by|alpha|weight|\\PC)=?[0-9.e-]{0,4}){0,5}",
        ) {
            if let Err(e) = parse(&text) {
                let message = e.to_string();
                prop_assert!(!message.contains(['\n', '\r']), "{:?}", message);
            }
        }
    }
}
