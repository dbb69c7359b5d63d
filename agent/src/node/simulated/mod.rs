// SPDX-License-Identifier: Apache-2.0
//! A simulated node. Its tenants are closed loops of operations over page caches that run the real
//! policy files, and share one storage device. The controller and the user interfaces cannot
//! distinguish it from a host.
//!
//! It simulates every access of every tenant through its policy, and every read through the queue
//! of the device. It does not simulate CPUs (operations never wait for one), readahead, writes,
//! pages shared between tenants, two operations that wait for the same read, and reclaim across
//! tenants: a tenant without a limit may use as much as the node's memory whatever others use, and
//! pages that are read for future tenants take nothing from it.
//!
//! Speed, by `tests::pace::accesses_per_second` in a release build on one core of a small virtual
//! machine: 6 to 8 million accesses per second of CPU time, of which 15% miss, with four tenants of
//! 16,384 pages and next to no curves. The cost of curves is extra.

mod accesses;
mod apply;
mod clock;
mod config;
mod device;
mod engine;
mod folder;
mod tenant;
#[cfg(test)]
mod tests;
mod validate;
mod warming;

pub use clock::{Clock, Lag, SystemClock};
pub use config::{
    DeviceConfig, PaceConfig, PhaseConfig, SimulationConfig, SourceConfig, TenantConfig,
};

use crate::curves::CurvesConfig;
use crate::error::{Error, Result};
use crate::node::{Identity, Node, Observation, Pace};
use crate::wire;
use cachepilot_models::policy::policies;
use engine::Engine;
use std::path::PathBuf;
use std::time::Duration;

/// The start of virtual time, since 1970: the first moment of 2026.
const VIRTUAL_START: Duration = Duration::from_secs(1_767_225_600);
/// Node time between two reads of the clock.
const SLICE_NS: u64 = 2_000_000;
/// The least host time after which a tick in real time gives up for the moment.
const LEAST_TICK: Duration = Duration::from_millis(5);
/// A node that is further behind the clock logs a warning.
const NOTABLE_LAG: Duration = Duration::from_secs(1);

/// A simulated host.
pub struct SimulatedNode {
    engine: Engine,
    pace: PaceConfig,
    budget_bytes: u64,
    cpus: u32,
    clock: Box<dyn Clock>,
    /// Time since 1970 at which node time was 0.
    start: Duration,
    lag: Lag,
    warned: bool,
}

impl SimulatedNode {
    /// A node at node time 0, with the host's clock.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for a value out of range, or the mistake in a trace or in
    /// `curves`.
    pub fn new(config: SimulationConfig, curves: CurvesConfig) -> Result<Self> {
        Self::with_clock(config, curves, Box::new(SystemClock::default()))
    }

    /// As [`SimulatedNode::new`], with a given clock, which virtual time does not read.
    ///
    /// # Errors
    /// As [`SimulatedNode::new`].
    pub fn with_clock(
        config: SimulationConfig,
        curves: CurvesConfig,
        clock: Box<dyn Clock>,
    ) -> Result<Self> {
        let refused = |message| Error::Config { path: PathBuf::from("simulation"), message };
        config.check().map_err(refused)?;
        let engine = Engine::new(&config, curves)?;
        let start = match config.pace {
            PaceConfig::Virtual => VIRTUAL_START,
            PaceConfig::Real => clock.now(),
        };
        let SimulationConfig { pace, budget_bytes, cpus, .. } = config;
        let lag = Lag::default();
        Ok(Self { engine, pace, budget_bytes, cpus, clock, start, lag, warned: false })
    }

    /// How far node time is behind the clock; always 0 in virtual time.
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.lag
    }

    /// Simulates up to the present clock time, unless that takes longer than `elapsed`, the time to
    /// be simulated: otherwise the node would fall behind further with every tick.
    fn follow_clock(&mut self, elapsed: Duration) -> Result<()> {
        let began = self.clock.now();
        let target_ns = (began.saturating_sub(self.start)).as_nanos() as u64;
        let deadline = began + elapsed.max(LEAST_TICK);
        while self.engine.now_ns < target_ns && self.clock.now() < deadline {
            let next_ns = target_ns.min(self.engine.now_ns + SLICE_NS);
            self.engine.run_until(next_ns)?;
        }
        let node = self.start + Duration::from_nanos(self.engine.now_ns);
        let late = self.engine.now_ns < target_ns;
        self.lag.record(self.clock.now().saturating_sub(node), late);
        self.warn_when_behind();
        Ok(())
    }

    fn warn_when_behind(&mut self) {
        let behind = self.lag.behind >= NOTABLE_LAG;
        if behind && !self.warned {
            let lag_ms = self.lag.behind.as_millis() as u64;
            tracing::warn!(lag_ms, "the host is too slow for this simulation: node time is behind");
        }
        self.warned = behind;
    }
}

impl Node for SimulatedNode {
    fn identity(&self) -> Identity {
        let attachable = policies().iter().filter(|p| !p.manifest.simulation_only);
        let mut names: Vec<String> = attachable.flat_map(|p| p.manifest.names()).collect();
        names.sort();
        Identity {
            kind: "simulated",
            kernel: format!("simulated {}", env!("CARGO_PKG_VERSION")),
            capabilities: vec!["policies", "limits", "curves"],
            policies: names,
            boot: String::new(),
        }
    }

    fn pace(&self) -> Pace {
        match self.pace {
            PaceConfig::Real => Pace::RealTime,
            PaceConfig::Virtual => Pace::Lockstep,
        }
    }

    fn tick(&mut self, elapsed: Duration) -> Result<()> {
        match self.pace {
            PaceConfig::Real => self.follow_clock(elapsed),
            PaceConfig::Virtual => {
                let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
                self.engine.run_until(self.engine.now_ns.saturating_add(elapsed_ns))
            }
        }
    }

    fn observe(&mut self) -> Result<Observation> {
        let now_ns = self.engine.now_ns;
        let mut tenants: Vec<wire::Tenant> =
            self.engine.tenants().map(|tenant| tenant.observe(now_ns)).collect();
        tenants.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        Ok(Observation {
            time_us: (self.start + Duration::from_nanos(now_ns)).as_micros() as u64,
            budget_bytes: self.budget_bytes,
            cpus: self.cpus,
            device: self.engine.device.wire(),
            tenants,
            loss: wire::Loss {
                dropped_events_total: self
                    .engine
                    .tenants()
                    .map(|tenant| tenant.lost_evictions())
                    .sum(),
                untracked_tenants_total: 0,
                failed_reads_total: self.engine.failures(),
            },
            conditions: Vec::new(),
        })
    }

    fn apply(&mut self, action: &wire::Action) -> wire::Result {
        let tenant = self.engine.tenants().find(|tenant| tenant.cgroup == action.cgroup);
        apply::apply(tenant, action)
    }

    fn name_tasks(&mut self, named: &[wire::NamedTasks]) {
        self.engine.tenants().for_each(|tenant| tenant.name_tasks(named));
    }

    fn release(&mut self) -> Vec<wire::Result> {
        self.engine.tenants().map(apply::release).collect()
    }

    fn adopted(&self) -> Vec<String> {
        // Nothing of a simulation outlives its process.
        Vec::new()
    }
}
