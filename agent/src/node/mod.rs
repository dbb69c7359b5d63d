// SPDX-License-Identifier: Apache-2.0
//! The node that the agent observes and controls: a kernel with cache_ext, any other kernel, or a
//! simulation.

pub mod factory;
pub mod kernel;
pub mod simulated;
pub mod task_names;

use crate::error::Result;
use crate::wire;
use std::time::Duration;

/// How time passes on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Time passes by itself.
    RealTime,
    /// Time passes only by [`Node::tick`]. The next interval waits for the plan of the last one.
    Lockstep,
}

/// Properties of a node that do not change while the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// `cache_ext`, `stock` or `simulated`.
    pub kind: &'static str,
    /// Release of the kernel, or a substitute for it on a simulated node.
    pub kernel: String,
    /// See `Hello.capabilities`.
    pub capabilities: Vec<&'static str>,
    /// Policies that can be attached, without `default`, sorted.
    pub policies: Vec<String>,
    /// Identifies the time for which policies and limits last. They outlive an agent while this
    /// value stays the same. It is empty if nothing outlives an agent.
    pub boot: String,
}

/// The state of a node at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// The node's time, microseconds since 1970.
    pub time_us: u64,
    /// Memory that all tenants share, bytes.
    pub budget_bytes: u64,
    /// CPUs that are online; 0 if that is unknown.
    pub cpus: u32,
    /// The device that tenants read from.
    pub device: wire::Device,
    /// Tenants, sorted by path. Each tenant that has curves carries them every time; the session
    /// sends only those that changed.
    pub tenants: Vec<wire::Tenant>,
    /// What could not be observed.
    pub loss: wire::Loss,
    /// Conditions of the node as a whole.
    pub conditions: Vec<wire::Condition>,
}

/// A host, or a simulation of one. Calls block, so the agent runs each node in a thread of its own.
pub trait Node: Send {
    /// The node's fixed properties.
    fn identity(&self) -> Identity;

    /// How time passes on this node.
    fn pace(&self) -> Pace;

    /// Advances the node by `elapsed`. A node with a kernel drains its events and moves its limits
    /// towards their targets; a simulation runs for this time.
    ///
    /// # Errors
    /// Returns an error only if going on would be useless. A problem with one tenant is counted, or
    /// reported in the tenant's `distrust`.
    fn tick(&mut self, elapsed: Duration) -> Result<()>;

    /// Observes all tenants.
    ///
    /// # Errors
    /// As [`Node::tick`].
    fn observe(&mut self) -> Result<Observation>;

    /// Carries out a plan's action for one tenant, and reads the result back.
    fn apply(&mut self, action: &wire::Action) -> wire::Result;

    /// Sets the named tasks of tenants. Tenants that are not in `named` have none. Policies that
    /// treat such tasks apart are simulated, and attached, with the tasks that have these names.
    fn name_tasks(&mut self, named: &[wire::NamedTasks]);

    /// Returns every tenant to the policy and the limit it had when it was first seen.
    fn release(&mut self) -> Vec<wire::Result>;

    /// Tenants whose policy or limit is still the one that an earlier agent set; see
    /// `Hello.adopted`.
    fn adopted(&self) -> Vec<String>;
}
