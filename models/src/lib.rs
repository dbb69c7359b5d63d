// SPDX-License-Identifier: Apache-2.0
//! Miss ratio curves and policy simulation for the page cache: exact stack distances, SHARDS,
//! miniature simulation and the native build of every policy under `bpf/policies`.

pub mod error;
pub mod hash;
pub mod policy;
pub mod trace;

pub use error::{Error, Result};
