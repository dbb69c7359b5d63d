// SPDX-License-Identifier: Apache-2.0
//! Miss ratio curves and policy simulation for the page cache: exact stack distances, SHARDS,
//! miniature simulation and the native build of every policy under `bpf/policies`. The crate also
//! has the two numerical searches of the controller that must be fast: [`knapsack`] and
//! [`split_fit`].

pub mod ageing;
mod count_correction;
#[cfg(target_arch = "x86_64")]
mod cpu_features;
pub mod curve;
pub mod error;
pub mod exact;
pub mod hash;
pub mod histogram;
pub mod knapsack;
pub mod minisim;
pub mod opt;
pub mod page_index;
pub mod policy;
pub mod prefetch;
#[cfg(feature = "python")]
mod python;
pub mod rank_bitmap;
pub mod shards;
pub mod simulation;
pub mod split_fit;
pub mod stack_distance;
pub mod synthetic;
mod time_set;
pub mod trace;
pub mod windows;

pub use error::{Error, Result};
