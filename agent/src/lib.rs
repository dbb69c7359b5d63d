// SPDX-License-Identifier: Apache-2.0
//! The agent of a node. It watches cgroups, learns their miss ratio curves, and gives them eviction
//! policies and memory limits, which stay in force when this process ends.

pub mod bpf;
pub mod cachestat;
pub mod cgroup;
pub mod config;
pub mod curves;
pub mod daemon;
mod damaged;
pub mod doctor;
pub mod error;
pub mod exporter;
mod glob;
pub mod latency;
pub mod managers;
pub mod node;
pub mod pages;
pub mod policies;
pub mod record;
pub mod session;
pub mod wire;

pub use error::{Error, Result};
pub use policies::support::check as check_kernel;
