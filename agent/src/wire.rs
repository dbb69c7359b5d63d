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
