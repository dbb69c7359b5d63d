// SPDX-License-Identifier: Apache-2.0
//! Approximate LRU curves from hash-sampled pages: SHARDS (Waldspurger, Park, Garthwaite, Ahmad,
//! FAST '15) at a fixed rate and at a fixed size, both with the count correction SHARDS-adj.
//!
//! A page is in the sample when its hash is below a threshold, so either all or none of its
//! accesses are sampled. A distance among sampled pages is the rate R times the distance among all
//! pages.

mod error_bars;
pub mod filter;
mod fixed_rate;
mod fixed_size;

use crate::ageing::Ageing;
use crate::error::{Error, Result};

pub use error_bars::SUB_SAMPLES;
pub use fixed_rate::FixedRateShards;
pub use fixed_size::FixedSizeShards;

/// Options of both samplers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Seed that selects which pages are sampled: it is xored into every key before hashing.
    pub seed: u64,
    /// Number of accesses after which the weight of an access halves. With `None`, all accesses
    /// weigh the same.
    pub half_life: Option<u64>,
}

/// Returns an error if there is no sampled access to compute a curve from.
pub(crate) fn check_sampled(ageing: &Ageing, sampled: u64) -> Result<()> {
    match (ageing.accesses(), sampled) {
        (0, _) => Err(Error::argument("trace", "has no accesses, so it has no curve")),
        (accesses, 0) => {
            let message = format!("none of {accesses} accesses was sampled; raise the rate");
            Err(Error::argument("rate", message))
        }
        _ => Ok(()),
    }
}
