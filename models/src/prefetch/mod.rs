// SPDX-License-Identifier: Apache-2.0
//! The readahead policies of `bpf/prefetch`, compiled natively, over a simulated page cache that
//! tells readahead that was useful from what was wasted.

mod cache;
mod native;
mod registry;
mod simulator;
mod window;

pub use registry::{KERNEL_MODEL, Prefetcher, find, prefetchers};
pub use simulator::{Access, PrefetchConfig, PrefetchStats, Simulator};
