// SPDX-License-Identifier: Apache-2.0
//! The policies of `bpf/policies`, compiled natively, and simulated instances of them.

mod adoption;
mod instance;
pub mod manifest;
mod registry;
mod stepwise;
mod tunables;
mod variants;

pub use adoption::{Eviction, Evictions};
pub use instance::{
    Instance, InstanceConfig, KERNEL_BATCH, MAX_CAPACITY_PAGES, Requests, Stats, effective_batch,
};
pub use manifest::{Manifest, Tunable};
pub use registry::{Candidate, Policy, find, manifests_json, policies, resolve};
pub(crate) use registry::{compiled, named};
pub use variants::{SEPARATOR, Variant, policy_of};
