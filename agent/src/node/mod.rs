// SPDX-License-Identifier: Apache-2.0
//! What the agent watches and steers: a kernel with cache_ext, any other kernel, or a simulation.

pub mod factory;
pub mod kernel;
pub mod simulated;
pub mod task_names;

use crate::error::Result;
use crate::wire;
use std::time::Duration;

/// Who sets the pace of a node's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Time passes by itself.
    RealTime,
    /// Time passes when the node is told to; the next interval waits for the last one's plan.
    Lockstep,
}

/// What does not change while the agent runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// `cache_ext`, `stock` or `simulated`.
    pub kind: &'static str,
    /// Release of the kernel, or what stands for it.
    pub kernel: String,
    /// See `Hello.capabilities`.
    pub capabilities: Vec<&'static str>,
    /// Policies that can be attached, without `default`, sorted.
    pub policies: Vec<String>,
    /// Names the time for which policies and limits last: they outlive an agent as long as this is
    /// the same. Empty when nothing outlives one.
    pub boot: String,
}

/// One look at a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// The node's time, microseconds since 1970.
    pub time_us: u64,
    /// Memory that all tenants share.
    pub budget_bytes: u64,
    /// CPUs that are online; 0 where that is not known.
    pub cpus: u32,
    /// The device that they read from.
    pub device: wire::Device,
    /// Tenants, sorted by path. Curves are always there when there are any; the session sends
    /// those that changed.
    pub tenants: Vec<wire::Tenant>,
    /// What could not be seen.
    pub loss: wire::Loss,
    /// What holds of the node as a whole.
    pub conditions: Vec<wire::Condition>,
}

/// A host, or what stands for one. Calls block; the agent gives a node a thread of its own.
pub trait Node: Send {
    /// Who it is.
    fn identity(&self) -> Identity;

    /// Who sets the pace.
    fn pace(&self) -> Pace;

    /// Lets `elapsed` pass: a kernel's events are drained and its limits moved on their way, a
    /// simulation runs for so long.
    ///
    /// # Errors
    /// What makes going on useless; what concerns one tenant is counted or told in its `distrust`.
    fn tick(&mut self, elapsed: Duration) -> Result<()>;

    /// Looks at all tenants.
    ///
    /// # Errors
    /// As [`Node::tick`].
    fn observe(&mut self) -> Result<Observation>;

    /// Does what a plan says of one tenant, and reads it back.
    fn apply(&mut self, action: &wire::Action) -> wire::Result;

    /// Tasks of these tenants are named, and of no others: policies that treat such tasks apart are
    /// simulated for them, and attached, with the tasks that have these names.
    fn name_tasks(&mut self, named: &[wire::NamedTasks]);

    /// Returns every tenant to the kernel's default and to the limit it had at first.
    fn release(&mut self) -> Vec<wire::Result>;

    /// Tenants whose policy or limit was found as it had been left; see `Hello.adopted`.
    fn adopted(&self) -> Vec<String>;
}
