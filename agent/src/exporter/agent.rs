// SPDX-License-Identifier: Apache-2.0
//! The agent's counters about itself.

use crate::wire::result::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// A label `outcome`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    outcome: &'static str,
}

/// Counters of the session, of plans and of the node. Clones share the same values.
#[derive(Debug, Clone)]
pub struct AgentMetrics {
    /// 1 while there is a session.
    pub connected: Gauge,
    /// Sessions that began.
    pub sessions: Counter,
    /// Attempts that failed, and sessions that broke.
    pub sessions_failed: Counter,
    /// Snapshots sent.
    pub snapshots_sent: Counter,
    /// Snapshots dropped because the session was too slow.
    pub snapshots_dropped: Counter,
    /// Size of the last snapshot, bytes.
    pub snapshot_bytes: Gauge,
    /// Curves that did not fit into a snapshot, counted once per snapshot.
    pub curves_deferred: Counter,
    /// Tenants that did not fit into a snapshot, counted once per snapshot.
    pub tenants_left_out: Counter,
    /// Snapshots that no plan answered in time.
    pub plans_missed: Counter,
    /// Plans that were refused because too many waited.
    pub plans_overrun: Counter,
    /// Acknowledgements that could not be passed to the session.
    pub acks_dropped: Counter,
    /// The greatest epoch applied.
    pub epoch: Gauge,
    /// Wall time at which the lease ends, seconds since 1970; 0 without a lease.
    pub lease_deadline_seconds: Gauge,
    /// Leases that ended without a newer plan.
    pub leases_expired: Counter,
    /// Changes on trial, neither confirmed nor undone.
    pub changes_unconfirmed: Gauge,
    /// Observations of the node that failed or came too late.
    pub observations_failed: Counter,
    /// Duration of an observation.
    pub observe_seconds: Histogram,
    /// Duration of an action.
    pub apply_seconds: Histogram,
    /// Duration of writing the state to disk.
    pub store_seconds: Histogram,
    plans: Family<OutcomeLabel, Counter>,
    actions: Family<OutcomeLabel, Counter>,
    undone: Family<OutcomeLabel, Counter>,
}

impl Default for AgentMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(1e-5, 4.0, 11));
        Self {
            connected: Gauge::default(),
            sessions: Counter::default(),
            sessions_failed: Counter::default(),
            snapshots_sent: Counter::default(),
            snapshots_dropped: Counter::default(),
            snapshot_bytes: Gauge::default(),
            curves_deferred: Counter::default(),
            tenants_left_out: Counter::default(),
            plans_missed: Counter::default(),
            plans_overrun: Counter::default(),
            acks_dropped: Counter::default(),
            epoch: Gauge::default(),
            lease_deadline_seconds: Gauge::default(),
            leases_expired: Counter::default(),
            changes_unconfirmed: Gauge::default(),
            observations_failed: Counter::default(),
            observe_seconds: seconds(),
            apply_seconds: seconds(),
            store_seconds: seconds(),
            plans: Family::default(),
            actions: Family::default(),
            undone: Family::default(),
        }
    }
}

impl AgentMetrics {
    /// Counts a plan.
    pub fn plan(&self, applied: bool) {
        let outcome = if applied { "applied" } else { "refused" };
        self.plans.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts the outcome of an action.
    pub fn action(&self, outcome: Outcome) {
        self.actions.get_or_create(&label(outcome)).inc();
    }

    /// Counts the outcome of a rollback that the agent made by itself.
    pub fn undone(&self, outcome: Outcome) {
        self.undone.get_or_create(&label(outcome)).inc();
    }

    /// Adds everything to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("cachepilot_agent");
        self.register_session(registry);
        self.register_plans(registry);
        let mut histogram = |name: &str, help: &str, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        histogram("observe", "Duration of an observation of all tenants", &self.observe_seconds);
        histogram("apply", "Duration of an action of a plan", &self.apply_seconds);
        histogram("store", "Duration of writing the state to disk", &self.store_seconds);
    }

    fn register_session(&self, registry: &mut Registry) {
        let connected = "Whether there is a session with the controller";
        registry.register("session_connected", connected, self.connected.clone());
        let size = "Size of the last snapshot";
        registry.register_with_unit("snapshot", size, Unit::Bytes, self.snapshot_bytes.clone());
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter("sessions", "Sessions that began", &self.sessions);
        let failed = "Attempts to connect that failed and sessions that broke";
        counter("sessions_failed", failed, &self.sessions_failed);
        counter("snapshots_sent", "Snapshots sent", &self.snapshots_sent);
        let dropped = "Snapshots dropped because the session was too slow";
        counter("snapshots_dropped", dropped, &self.snapshots_dropped);
        let deferred = "Curves deferred to a later snapshot";
        counter("curves_deferred", deferred, &self.curves_deferred);
        let left_out = "Tenants left out because a snapshot had no room for them";
        counter("tenants_left_out", left_out, &self.tenants_left_out);
        let missed = "Snapshots that no plan answered in time";
        counter("plans_missed", missed, &self.plans_missed);
        counter("plans_overrun", "Plans dropped because the queue was full", &self.plans_overrun);
        let acks = "Acknowledgements that could not be sent";
        counter("acks_dropped", acks, &self.acks_dropped);
    }

    fn register_plans(&self, registry: &mut Registry) {
        registry.register("epoch", "The greatest epoch that was applied", self.epoch.clone());
        let lease = "When the lease ends, 0 without one";
        let deadline = self.lease_deadline_seconds.clone();
        registry.register("lease_deadline_timestamp_seconds", lease, deadline);
        let expired = "Leases that ended without a newer plan";
        registry.register("leases_expired", expired, self.leases_expired.clone());
        let waiting = "Changes on trial that are neither confirmed nor undone";
        registry.register("changes_unconfirmed", waiting, self.changes_unconfirmed.clone());
        let undone = "Changes undone because they were not confirmed in time, by outcome";
        registry.register("changes_undone", undone, self.undone.clone());
        let failed = "Observations of the node that failed or came too late";
        registry.register("observations_failed", failed, self.observations_failed.clone());
        registry.register("plans", "Plans by outcome", self.plans.clone());
        registry.register("actions", "Actions by outcome", self.actions.clone());
    }
}

fn label(outcome: Outcome) -> OutcomeLabel {
    let outcome = match outcome {
        Outcome::Unspecified => "unspecified",
        Outcome::Applied => "applied",
        Outcome::Started => "started",
        Outcome::Unchanged => "unchanged",
        Outcome::Refused => "refused",
        Outcome::Failed => "failed",
        Outcome::Gone => "gone",
    };
    OutcomeLabel { outcome }
}
