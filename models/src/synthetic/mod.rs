// SPDX-License-Identifier: Apache-2.0
//! Synthetic traces: mixtures of simple access patterns, drawn from a seed.

mod component;
mod random;
mod workload;
mod zipf;

pub use component::{Component, MAX_PAGES, Pattern};
pub use workload::{MAX_COMPONENTS, Workload, generate};
