// SPDX-License-Identifier: Apache-2.0
//! What runs on a node: it watches cgroups, learns their miss ratio curves, and gives them eviction
//! policies and limits that outlive this process.

mod bpf;
pub mod cachestat;
pub mod cgroup;
pub mod config;
pub mod curves;
pub mod daemon;
mod damaged;
pub mod doctor;
pub mod error;
pub mod exporter;
pub mod kind;
pub mod node;
pub mod overview;
pub mod pins;
pub mod policies;
pub mod policy_dir;
pub mod record;
pub mod session;
pub mod settings;
pub mod stats;
pub mod verify;
pub mod wire;

pub use bpf::support::check as check_kernel;
pub use error::{Error, Result};
