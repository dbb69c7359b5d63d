// SPDX-License-Identifier: Apache-2.0
//! What curves are compared with.

/// What the kernel counted of a tenant in one window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured<'a> {
    /// Name of the policy as on the wire.
    pub policy: &'a str,
    /// Size of the page cache.
    pub size_bytes: u64,
    /// All accesses, sampled or not.
    pub accesses: u64,
    /// Those that missed.
    pub misses: u64,
    /// Sampled events that were lost on the way.
    pub dropped: u64,
}
