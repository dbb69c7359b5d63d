// SPDX-License-Identifier: Apache-2.0
//! The page of a fictitious node: every family that the agent can show, for one tenant.
//! Documentation is generated from it, so that names, units and labels are those of the code.

use super::Shared;
use crate::latency::LATENCY_BUCKETS;
use crate::node::Observation;
use crate::wire::readahead::Pages;
use crate::wire::{Counters, Readahead, Tenant, result::Outcome};
use std::sync::Arc;
use std::time::Duration;

const OUTCOMES: [Outcome; 6] = [
    Outcome::Applied,
    Outcome::Started,
    Outcome::Unchanged,
    Outcome::Refused,
    Outcome::Failed,
    Outcome::Gone,
];

/// The text that `/metrics` would return.
///
/// # Errors
/// As [`Shared::text`].
pub fn example() -> Result<String, std::fmt::Error> {
    let shared = Arc::new(Shared::of("node-1"));
    for applied in [true, false] {
        shared.metrics.plan(applied);
    }
    for outcome in OUTCOMES {
        shared.metrics.action(outcome);
        shared.metrics.undone(outcome);
    }
    let counters = Counters { read_latency_total: vec![0; LATENCY_BUCKETS], ..Default::default() };
    let tenant = Tenant {
        cgroup: "/tenant".into(),
        policy: "lru".into(),
        counters: Some(counters),
        policy_cpu_us_per_access: Some(0.0),
        readahead: Some(Readahead { policy: "linux".into(), pages: Some(Pages::default()) }),
        ..Default::default()
    };
    let observation = Observation { tenants: vec![tenant], ..Default::default() };
    shared.saw(Arc::new(observation), Duration::from_secs(1));
    shared.text()
}
