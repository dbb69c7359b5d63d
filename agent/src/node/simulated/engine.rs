// SPDX-License-Identifier: Apache-2.0
//! Discrete events in node time: turns of operations, reads of pages for future tenants, steps of
//! limits, and tenants that appear and disappear. A turn is the moment at which an operation
//! continues. Events at the same time are processed in the order in which they were created.

use super::config::{PAGE_BYTES, SimulationConfig, TenantConfig};
use super::device::Device;
use super::tenant::{Abandoned, Common, Tenant};
use super::warming::Warming;
use crate::curves::CurvesConfig;
use crate::error::Result;
use cachepilot_models::hash::page_hash;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

mod folder;

use folder::Folder;

/// Time between two steps of limits that are being lowered.
const STEP_NS: u64 = 10_000_000;
const STEPS_PER_SECOND: u64 = 1_000_000_000 / STEP_NS;
/// Time between two reads of the folder of tenants.
const LOOK_NS: u64 = 1_000_000_000;

/// A number in place of a tenant's, for a turn of [`Warming`].
const WARMING: u32 = u32::MAX;

/// An operation's turn; ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at_ns: u64,
    sequence: u64,
    tenant: u32,
    operation: u32,
}

/// One tenant of the configuration or of the folder.
struct Slot {
    config: TenantConfig,
    /// The file of the folder that defines it.
    file: Option<String>,
    /// Number of its turns in the queue.
    turns: usize,
    start_ns: u64,
    stop_ns: u64,
    seed: u64,
    stage: Stage,
}

impl Slot {
    /// Whether its tenant is present and its operations stopped.
    fn has_stopped(&self) -> bool {
        matches!(&self.stage, Stage::Here(tenant) if tenant.failure().is_some())
    }
}

enum Stage {
    Awaited,
    Here(Box<Tenant>),
    Gone(Abandoned),
}

/// The simulation behind a node.
pub(super) struct Engine {
    pub(super) now_ns: u64,
    pub(super) device: Device,
    /// Number of tenants that had stopped and are gone.
    stopped_and_gone: u64,
    budget_bytes: u64,
    step_bytes: u64,
    curves: CurvesConfig,
    slots: Vec<Slot>,
    folder: Option<Folder>,
    warming: Warming,
    turns: BinaryHeap<Reverse<Turn>>,
    sequence: u64,
    seed: u64,
    next_step_ns: u64,
    next_look_ns: u64,
    next_id: u64,
}

impl Engine {
    /// The state at node time 0, with the tenants that exist from the start. The sources of all
    /// other tenants are opened once as well, so that mistakes in their files are found now.
    pub(super) fn new(config: &SimulationConfig, curves: CurvesConfig) -> Result<Self> {
        let slot = |(i, tenant): (usize, &TenantConfig)| Slot {
            config: tenant.clone(),
            file: None,
            turns: 0,
            start_ns: nanoseconds(tenant.start_s),
            stop_ns: tenant.stop_s.map_or(u64::MAX, nanoseconds),
            seed: page_hash(config.seed ^ page_hash(i as u64)),
            stage: Stage::Awaited,
        };
        let folder = match &config.tenants_dir {
            Some(path) => Some(Folder::new(path, config.budget_bytes)?),
            None => None,
        };
        let mut engine = Self {
            now_ns: 0,
            device: Device::new(&config.device),
            stopped_and_gone: 0,
            budget_bytes: config.budget_bytes,
            step_bytes: config.reclaim_bytes_per_second / STEPS_PER_SECOND,
            curves,
            slots: config.tenants.iter().enumerate().map(slot).collect(),
            next_look_ns: if folder.is_some() { LOOK_NS } else { u64::MAX },
            folder,
            warming: Warming::new(config.budget_bytes / PAGE_BYTES),
            turns: BinaryHeap::new(),
            sequence: 0,
            seed: config.seed,
            next_step_ns: STEP_NS,
            next_id: 1,
        };
        for slot in &engine.slots {
            engine.make(slot, 0)?;
        }
        engine.come_and_go()?;
        engine.look_at_folder();
        Ok(engine)
    }

    /// The present tenants, in the order of the configuration.
    pub(super) fn tenants(&mut self) -> impl Iterator<Item = &mut Tenant> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.stage {
            Stage::Here(tenant) => Some(&mut **tenant),
            Stage::Awaited | Stage::Gone(_) => None,
        })
    }

    /// Number of tenants that stopped, whatever the reason, plus that of refused files of the
    /// folder.
    pub(super) fn failures(&self) -> u64 {
        let stopped = self.slots.iter().filter(|slot| slot.has_stopped()).count() as u64;
        self.stopped_and_gone + stopped + self.folder.as_ref().map_or(0, Folder::failures)
    }

    /// Number of slots, with free ones.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.slots.len()
    }

    /// Advances node time to `target_ns`, and processes all events until then.
    pub(super) fn run_until(&mut self, target_ns: u64) -> Result<()> {
        while self.now_ns < target_ns {
            let change_ns = self.next_change_ns();
            let until_ns = target_ns.min(self.next_step_ns).min(self.next_look_ns).min(change_ns);
            self.run_turns(until_ns);
            self.now_ns = until_ns;
            if until_ns == self.next_step_ns {
                self.next_step_ns += STEP_NS;
                let step_bytes = self.step_bytes;
                self.tenants().for_each(|tenant| tenant.step(step_bytes));
            }
            if until_ns == change_ns {
                self.come_and_go()?;
            }
            if until_ns == self.next_look_ns {
                self.next_look_ns += LOOK_NS;
                self.look_at_folder();
            }
        }
        Ok(())
    }

    fn run_turns(&mut self, until_ns: u64) {
        let Self { slots, device, turns, sequence, warming, .. } = self;
        while let Some(mut top) = turns.peek_mut() {
            let Reverse(turn) = *top;
            if turn.at_ns > until_ns {
                break;
            }
            let next_ns = match turn.tenant {
                WARMING => warming.turn(turn.at_ns, device),
                tenant => take_turn(&mut slots[tenant as usize].stage, turn, device),
            };
            match next_ns {
                Some(next_ns) => {
                    *sequence += 1;
                    // Replacing the top in place is cheaper than removing it and pushing another.
                    *top = Reverse(Turn { at_ns: next_ns, sequence: *sequence, ..turn });
                }
                None => {
                    PeekMut::pop(top);
                    if turn.tenant != WARMING {
                        slots[turn.tenant as usize].turns -= 1;
                    }
                }
            }
        }
    }

    fn next_change_ns(&self) -> u64 {
        let change = |slot: &Slot| match slot.stage {
            Stage::Awaited => slot.start_ns,
            Stage::Here(_) => slot.stop_ns,
            Stage::Gone(_) => u64::MAX,
        };
        self.slots.iter().map(change).min().unwrap_or(u64::MAX)
    }

    /// Tenants that disappear come first, as another tenant may appear under the same name at the
    /// same time.
    fn come_and_go(&mut self) -> Result<()> {
        let now_ns = self.now_ns;
        self.end(|slot| slot.stop_ns <= now_ns);
        for i in 0..self.slots.len() {
            let slot = &self.slots[i];
            if matches!(slot.stage, Stage::Awaited) && slot.start_ns <= self.now_ns {
                let tenant = self.make(slot, self.next_id)?;
                self.begin(i, tenant);
            }
        }
        Ok(())
    }

    /// Ends the present tenants of the slots for which `is_over` is true.
    fn end(&mut self, is_over: impl Fn(&Slot) -> bool) {
        for slot in self.slots.iter_mut().filter(|slot| is_over(slot)) {
            self.stopped_and_gone += u64::from(slot.has_stopped());
            if let Stage::Here(tenant) = &slot.stage {
                slot.stage = Stage::Gone(tenant.workload.abandon());
            }
        }
    }

    /// Makes `tenant` the present tenant of slot `i`.
    fn begin(&mut self, i: usize, tenant: Tenant) {
        self.next_id += 1;
        for (operation, at_ns) in tenant.workload.first_turns(self.now_ns).enumerate() {
            self.slots[i].turns += 1;
            self.await_turn(at_ns, i as u32, operation as u32);
        }
        self.slots[i].stage = Stage::Here(Box::new(tenant));
    }

    fn await_turn(&mut self, at_ns: u64, tenant: u32, operation: u32) {
        self.sequence += 1;
        self.turns.push(Reverse(Turn { at_ns, sequence: self.sequence, tenant, operation }));
    }

    fn make(&self, slot: &Slot, cgroup_id: u64) -> Result<Tenant> {
        let common = Common { budget_bytes: self.budget_bytes, curves: &self.curves };
        Tenant::new(&slot.config, &common, cgroup_id, slot.seed, self.now_ns)
    }
}

/// Processes a turn. Returns the time of the operation's next turn, if it has one.
fn take_turn(stage: &mut Stage, turn: Turn, device: &mut Device) -> Option<u64> {
    match stage {
        Stage::Here(tenant) if tenant.failure().is_none() => {
            let taken = tenant.workload.turn(turn.operation, turn.at_ns, device);
            taken.inspect_err(|error| tenant.stop(error)).ok()
        }
        Stage::Here(tenant) => {
            tenant.workload.last_turn(turn.operation, turn.at_ns, device);
            None
        }
        Stage::Gone(abandoned) => {
            abandoned.turn(turn.operation, turn.at_ns, device);
            None
        }
        Stage::Awaited => None,
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
