// SPDX-License-Identifier: Apache-2.0
//! What runs on a node: eviction policies in the kernel, one per cgroup, that outlive the process
//! which loaded them.

mod bpf;
pub mod cgroup;
pub mod error;
pub mod overview;
pub mod pins;
pub mod policies;
pub mod policy_dir;
pub mod settings;
pub mod stats;
pub mod verify;

pub use bpf::support::check as check_kernel;
pub use error::{Error, Result};
