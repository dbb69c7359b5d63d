// SPDX-License-Identifier: Apache-2.0
//! The measurements that curves are compared with.

/// What the kernel counted for a tenant in one window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured<'a> {
    /// Name of the policy in force, as on the wire.
    pub policy: &'a str,
    /// Size of the page cache, bytes.
    pub size_bytes: u64,
    /// All accesses, sampled or not.
    pub accesses: u64,
    /// Accesses that missed.
    pub misses: u64,
    /// Sampled events that were lost before they arrived.
    pub dropped: u64,
}
