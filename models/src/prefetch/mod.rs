// SPDX-License-Identifier: Apache-2.0
//! The readahead policies of `bpf/prefetch`, compiled natively, over the simulated page cache of an
//! eviction policy. The simulation distinguishes readahead that was useful from readahead that was
//! wasted.

mod cache;
mod config;
mod native;
mod registry;
mod simulator;
mod stats;
mod trace;
mod window;

pub use config::{FilePages, MIN_CAPACITY_PAGES, PrefetchConfig};
pub use registry::{KERNEL_MODEL, Prefetcher, find, manifests_json, prefetchers};
pub use simulator::{Access, Simulator};
pub use stats::{Ahead, PrefetchStats};
pub use trace::{PrefetchJob, PrefetchOutcome, file_sizes, simulate};
