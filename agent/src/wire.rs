// SPDX-License-Identifier: Apache-2.0
//! The messages of `proto/cachepilot/v1`, generated: the only contract with the controller, and
//! also the words in which a [`crate::node::Node`] speaks.

#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::expect_used)]

tonic::include_proto!("cachepilot.v1");

impl Result {
    /// Whether it is to be asked for again: it failed, or is not known to hold yet.
    #[must_use]
    pub fn is_left(&self) -> bool {
        use result::Outcome::{Failed, Started};
        matches!(self.outcome(), Failed | Started)
    }

    /// It as programs of this host are told.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "cgroup": self.cgroup,
            "outcome": self.outcome().as_str_name(),
            "reason": self.reason,
            "policy": self.policy,
            "limit_bytes": self.limit_bytes,
        })
    }
}

/// Name of the kernel's own policy on the wire: what decides where none is attached.
pub const DEFAULT_POLICY: &str = "default";
/// Buckets of a histogram of read calls, see `Counters.read_latency_total`.
pub const LATENCY_BUCKETS: usize = 104;

/// Bucket of a read call that took `ns` nanoseconds.
#[must_use]
pub fn latency_bucket(ns: u64) -> usize {
    let us = ns / 1000;
    if us == 0 {
        return 0;
    }
    let exponent = us.ilog2() as usize;
    // Bits after the leading one, from nanoseconds: short calls have quarters of a microsecond.
    let quarter = ((ns / 250) >> exponent) as usize & 3;
    (4 * exponent + quarter).min(LATENCY_BUCKETS - 1)
}
