// SPDX-License-Identifier: Apache-2.0
//! The requests of a mixture of patterns.

use std::path::Path;

use super::component::{Component, Pattern};
use super::random::Random;
use super::zipf::Zipf;
use crate::error::{Error, Result};
use crate::trace::{CHUNK_REQUESTS, KeySink, Progress};

/// Largest number of components of a mixture.
pub const MAX_COMPONENTS: usize = 64;
/// The pages of component i start at i times 2 to this power.
const PAGE_BITS: u32 = 56;
const PAGE_MASK: u64 = (1 << PAGE_BITS) - 1;

/// A pattern and its progress.
struct Running {
    pattern: Pattern,
    zipf: Option<Zipf>,
    /// Number of requests drawn so far.
    requests: u64,
}

impl Running {
    fn new(pattern: Pattern) -> Self {
        let zipf = match pattern {
            Pattern::Zipf { pages, alpha } | Pattern::Shifting { pages, alpha, .. } => {
                Some(Zipf::new(pages, alpha))
            }
            _ => None,
        };
        Self { pattern, zipf, requests: 0 }
    }

    /// Returns the page of the next request.
    fn draw(&mut self, random: &mut Random) -> u64 {
        let request = self.requests;
        self.requests += 1;
        let rank = self.zipf.as_ref().map_or(0, |zipf| zipf.draw(random) - 1);
        match self.pattern {
            Pattern::Zipf { .. } => rank,
            Pattern::Uniform { pages } => random.below(pages),
            Pattern::Loop { pages } => request % pages,
            Pattern::Scan => request,
            Pattern::Shifting { every, by, .. } => {
                (request / every).wrapping_mul(by).wrapping_add(rank)
            }
        }
    }
}

/// An endless stream of page keys. Each request belongs to a component drawn by the weights. The
/// keys of component i, counted from 0, are its pages plus i * 2^56. The page of rank r of a Zipf
/// pattern is r - 1, and the pages of a loop and of a scan rise from 0.
pub struct Workload {
    components: Vec<Running>,
    /// Cumulative sums of the weights.
    cumulative: Vec<f64>,
    random: Random,
}

impl Workload {
    /// Creates the stream of a seed.
    ///
    /// # Errors
    /// [`Error::Argument`] when there are no components or more than [`MAX_COMPONENTS`].
    pub fn new(components: &[Component], seed: u64) -> Result<Self> {
        if !(1..=MAX_COMPONENTS).contains(&components.len()) {
            let count = components.len();
            let message = format!("{count} patterns: must be 1 to {MAX_COMPONENTS}");
            return Err(Error::argument("mix", message));
        }
        let mut sum = 0.0;
        let cumulative = components.iter().map(|component| {
            sum += component.weight;
            sum
        });
        Ok(Self {
            cumulative: cumulative.collect(),
            components: components.iter().map(|c| Running::new(c.pattern)).collect(),
            random: Random::new(seed),
        })
    }

    /// Returns the key of the next request.
    pub fn next_key(&mut self) -> u64 {
        let last = self.components.len() - 1;
        let at = match last {
            0 => 0,
            _ => {
                let drawn = self.random.unit() * self.cumulative[last];
                self.cumulative.partition_point(|&sum| sum <= drawn).min(last)
            }
        };
        let page = self.components[at].draw(&mut self.random);
        ((at as u64) << PAGE_BITS) | (page & PAGE_MASK)
    }
}

/// Writes the first `requests` of a workload to `dst`, which is `.u64[.zst]` or `.cptrace[.zst]`.
/// Returns the number of requests written.
///
/// # Errors
/// Those of [`Workload::new`] and [`KeySink::create`]; whatever `progress` returns. In case of an
/// error, no file remains.
pub fn generate(
    components: &[Component],
    requests: u64,
    seed: u64,
    dst: &Path,
    progress: Progress,
) -> Result<u64> {
    let mut workload = Workload::new(components, seed)?;
    let mut sink = KeySink::create(dst)?;
    let mut keys = Vec::with_capacity(CHUNK_REQUESTS);
    let mut left = requests;
    while left > 0 {
        let count = left.min(CHUNK_REQUESTS as u64);
        keys.clear();
        keys.extend((0..count).map(|_| workload.next_key()));
        sink.write(&keys)?;
        left -= count;
        progress((requests - left) as f64 / requests as f64)?;
    }
    sink.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn keys(mix: &[&str], seed: u64, count: usize) -> Vec<u64> {
        let components: Vec<Component> = mix.iter().map(|text| text.parse().unwrap()).collect();
        let mut workload = Workload::new(&components, seed).unwrap();
        (0..count).map(|_| workload.next_key()).collect()
    }

    #[test]
    fn loops_repeat_and_scans_do_not() {
        assert_eq!(keys(&["loop,pages=3"], 1, 7), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(keys(&["scan"], 1, 4), [0, 1, 2, 3]);
    }

    #[test]
    fn a_seed_gives_one_trace_and_another_seed_another() {
        let mix = ["zipf,pages=1000,alpha=0.9", "uniform,pages=50", "scan"];
        assert_eq!(keys(&mix, 7, 5000), keys(&mix, 7, 5000));
        assert_ne!(keys(&mix, 7, 5000), keys(&mix, 8, 5000));
    }

    #[test]
    fn a_working_set_moves_and_keeps_its_size() {
        let keys = keys(&["shifting,pages=10,every=500,by=4"], 3, 2000);
        for (move_, part) in keys.chunks(500).enumerate() {
            let pages: HashSet<u64> = part.iter().copied().collect();
            let start = 4 * move_ as u64;
            assert_eq!(pages, (start..start + 10).collect());
        }
    }

    #[test]
    fn components_have_their_share_and_their_own_pages() {
        let keys = keys(&["loop,pages=5,weight=3", "uniform,pages=5"], 5, 40_000);
        let first = keys.iter().filter(|&&key| key < 5).count();
        assert!((29_500..30_500).contains(&first), "{first} of 40000");
        assert!(
            keys.iter()
                .all(|&key| key < 5 || (1 << PAGE_BITS..(1 << PAGE_BITS) + 5).contains(&key))
        );
        let looped: Vec<u64> = keys.into_iter().filter(|&key| key < 5).collect();
        assert!(looped.iter().enumerate().all(|(i, &key)| key == i as u64 % 5));
    }

    #[test]
    fn a_mixture_of_none_or_too_many_is_refused() {
        let scan: Component = "scan".parse().unwrap();
        assert!(Workload::new(&[], 1).is_err());
        assert!(Workload::new(&[scan; MAX_COMPONENTS], 1).is_ok());
        assert!(Workload::new(&[scan; MAX_COMPONENTS + 1], 1).is_err());
    }
}
