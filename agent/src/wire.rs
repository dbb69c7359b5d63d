// SPDX-License-Identifier: Apache-2.0
//! The messages of `proto/cachepilot/v1`, generated. They are the only contract with the
//! controller, and a [`crate::node::Node`] uses them as well.

#![allow(missing_docs, clippy::all, clippy::unwrap_used, clippy::expect_used)]

tonic::include_proto!("cachepilot.v1");

impl Result {
    /// Whether the action must be requested again: it failed, or it is not yet known to be in
    /// force.
    #[must_use]
    pub fn is_left(&self) -> bool {
        use result::Outcome::{Failed, Started};
        matches!(self.outcome(), Failed | Started)
    }

    /// The result as JSON, for programs on this host.
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

/// Name of the kernel's own eviction policy in messages. It decides where no policy is attached.
pub const DEFAULT_POLICY: &str = "default";
