// SPDX-License-Identifier: Apache-2.0
//! The real nodes: a kernel with cache_ext (policies, limits, curves), or any other kernel from
//! 5.15 on with cgroup v2 (limits, and curves if it has BTF).
//!
//! The agent's changes outlive it: the kernel keeps limits, policies are pinned, and the
//! [`adoption::ledger`] records the policy and the limit that each tenant had first. Nothing is
//! undone when the agent ends unless [`Node::release`] is called.

pub(super) mod adoption;
pub mod config;
#[cfg(test)]
pub(crate) mod fake;
pub mod host;
pub mod limits;
pub mod memory;
mod opening;
pub mod policy;
pub mod sampling;
pub mod tenant;

use self::adoption::ledger::Ledger;
use self::adoption::units::Returns;
use self::config::KernelConfig;
use self::host::{Device, Host, budget_bytes};
use self::limits::{units, writer::Writer};
pub use self::opening::Parts;
use self::policy::PolicyControl;
use self::policy::cost::PolicyCosts;
use self::sampling::Sampling;
use self::tenant::Tenant;
use self::tenant::conditions::{self, Conditions};
use self::tenant::{found, tasks};
use super::{Identity, Node, Observation, Pace};
use crate::cgroup::fs::CgroupFs;
use crate::curves::CurvesConfig;
use crate::error::{Error, Result};
use crate::managers::{Managers, Seen};
use crate::wire;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Identifies the current boot. Ids of cgroups start again with each boot.
const BOOT_ID: &str = "sys/kernel/random/boot_id";
/// The longest time between two searches for tenants.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// A limit is lowered by at most one step in this time.
const STEP_INTERVAL: Duration = Duration::from_millis(50);

/// A node on a real kernel.
pub struct KernelNode {
    config: KernelConfig,
    fs: CgroupFs,
    host: Host,
    policies: Option<Box<dyn PolicyControl>>,
    managers: Option<Managers>,
    conditions: Conditions,
    sampling: Option<Sampling>,
    costs: PolicyCosts,
    writer: Writer,
    ledger: Ledger,
    device: Device,
    tenants: BTreeMap<u64, Tenant>,
    named: tasks::Named,
    adopted: Vec<String>,
    /// Changed cgroups that are no longer tenants and have yet to get back their first policy and
    /// limit; with the reason why they have not.
    strangers: BTreeMap<u64, String>,
    returns: Returns,
    /// Results of tenants that were restored without a request. They are reported by the next call
    /// of `release`.
    given_back: Vec<wire::Result>,
    failed_reads: u64,
    /// The sum of all ticks.
    ticked: Duration,
    since_scan: Duration,
    since_restore: Duration,
    since_step: Duration,
    since_observation: Duration,
}

impl KernelNode {
    /// Makes a node of `parts`.
    ///
    /// # Errors
    /// As [`KernelNode::open`].
    pub fn with_parts(
        config: KernelConfig,
        curves: CurvesConfig,
        state_dir: &Path,
        parts: Parts,
    ) -> Result<Self> {
        let Parts { fs, host, policies, source, managers } = parts;
        let own = found::own(&fs, &host, std::process::id());
        let config = KernelConfig { own, ..config };
        let boot = host.line(BOOT_ID);
        let boot_id = boot.map_err(Error::kernel("the id of this boot"))?;
        let sampling = source.map(|source| Sampling::new(source, curves, config.max_tenants));
        let timeout = Duration::from_millis(config.write_timeout_ms);
        let writer = match managers.as_ref().and_then(Managers::units) {
            Some(units) => Writer::with(timeout, units::through(units, fs.mount().into())),
            None => Writer::new(timeout),
        };
        let mut node = Self {
            writer,
            ledger: Ledger::open(state_dir, &boot_id)?,
            device: Device::new(&host, &config.device),
            sampling: sampling.transpose()?,
            costs: PolicyCosts::default(),
            tenants: BTreeMap::new(),
            named: tasks::Named::new(),
            adopted: Vec::new(),
            strangers: BTreeMap::new(),
            returns: Returns::default(),
            given_back: Vec::new(),
            since_restore: Duration::ZERO,
            failed_reads: 0,
            ticked: Duration::ZERO,
            since_scan: Duration::ZERO,
            since_step: Duration::ZERO,
            since_observation: Duration::ZERO,
            config,
            fs,
            host,
            policies,
            managers,
            conditions: Conditions::default(),
        };
        node.scan();
        if node.tenants.is_empty() {
            tracing::warn!("no cgroup is a tenant yet: see root and match of [kernel]");
        }
        node.adopt();
        Ok(node)
    }

    /// Finds new tenants, and forgets those that are gone.
    fn scan(&mut self) {
        self.since_scan = Duration::ZERO;
        self.policies.iter().for_each(|policies| policies.renew());
        let found = found::scan(&self.fs, &self.config);
        if let Some(sampling) = &mut self.sampling {
            sampling.follow(&found);
        }
        let before = self.tenants.len();
        self.tenants.retain(|&id, _| found.iter().any(|tenant| tenant.id == id));
        let gone = self.tenants.len() < before;
        for tenant in found {
            if let Some(known) = self.tenants.get_mut(&tenant.id) {
                known.cgroup = tenant.cgroup;
                continue;
            }
            match Tenant::read(&self.fs, self.policies.as_deref(), &tenant) {
                Ok(mut known) => {
                    adoption::keep_yielded(&self.ledger, &mut known);
                    self.tenants.insert(tenant.id, known);
                }
                // The cgroup has gone in the meantime, or cannot be read.
                Err(_) if !self.fs.dir(&tenant.cgroup).exists() => {}
                Err(_) => self.failed_reads += 1,
            }
        }
        self.writer.forget(|id| self.tenants.contains_key(&id));
        self.follow_tasks();
        if let Some(managers) = &self.managers {
            managers.follow(self.tenants.values().map(|tenant| tenant.cgroup.as_str()));
        }
        if gone {
            self.forget_gone();
        }
    }

    /// Moves each limit that has not reached its target by one step.
    fn step_limits(&mut self) {
        let swap_free = self.host.memory_bytes("SwapFree");
        for tenant in self.tenants.values_mut().filter(|t| t.limit.is_moving()) {
            match tenant.usage(&self.fs, self.config.margin_bytes, swap_free) {
                Ok(usage) => {
                    let mut with = steering(&self.fs, &mut self.writer, &self.config);
                    tenant.limit.step(&mut with, &usage);
                }
                Err(_) => self.failed_reads += 1,
            }
        }
    }

    /// Lifts limits ahead of a floor that rises, whatever the time between two observations.
    fn follow_floors(&mut self) {
        let (now, margin) = (self.ticked, self.config.margin_bytes);
        let is_due = |tenant: &&mut Tenant| {
            tenant.limit.bytes().is_some_and(|high| tenant.growth.is_due(now, high))
                && adoption::is_ours(&self.ledger, tenant)
        };
        let mut swap_free = None;
        for tenant in self.tenants.values_mut().filter(is_due) {
            let swap_free = *swap_free.get_or_insert_with(|| self.host.memory_bytes("SwapFree"));
            let mut with = steering(&self.fs, &mut self.writer, &self.config);
            tenant.growth.looks(now);
            let lifted = tenant.usage(&self.fs, margin, swap_free).and_then(|usage| {
                let growth = tenant.growth.saw(now, &usage);
                tenant.limit.lift(&mut with, &usage, growth)
            });
            if lifted.is_err() {
                self.failed_reads += u64::from(self.fs.dir(&tenant.cgroup).exists());
            }
        }
    }

    fn observe_tenant(
        &mut self,
        id: u64,
        swap_free: u64,
        seen: &Seen,
        now_us: u64,
    ) -> Option<wire::Tenant> {
        let tenant = self.tenants.get_mut(&id)?;
        let ours = adoption::is_ours(&self.ledger, tenant);
        let usage = tenant.usage(&self.fs, self.config.margin_bytes, swap_free);
        let mut with = steering(&self.fs, &mut self.writer, &self.config);
        let checked = usage.and_then(|usage| {
            let growth = tenant.growth.saw(self.ticked, &usage);
            tenant.limit.check(&mut with, &usage, growth, ours)?;
            Ok(usage)
        });
        let Ok(usage) = checked else {
            // A cgroup that is gone is not an error: the next scan removes it.
            self.failed_reads += u64::from(self.fs.dir(&tenant.cgroup).exists());
            return None;
        };
        if let Some(policies) = self.policies.as_deref() {
            self.failed_reads += u64::from(tenant.check_policy(&self.fs, policies).is_err());
        }
        let mut shown = tenant.shown(&self.fs, &usage, self.ledger.get(id));
        let others = seen.tenants.get(&tenant.cgroup);
        let found = conditions::of_tenant(tenant, self.ledger.get(id), others);
        shown.conditions = tenant.conditions.told(found, now_us);
        shown.workload = others.and_then(|others| others.workload.clone());
        match &mut self.sampling {
            Some(sampling) => sampling.tell(&mut shown, &usage),
            None => shown.distrust = "accesses cannot be sampled on this host".into(),
        }
        self.note_yield(id, now_us);
        Some(shown)
    }
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

fn steering<'a>(
    fs: &'a CgroupFs,
    writer: &'a mut Writer,
    config: &KernelConfig,
) -> limits::Steering<'a> {
    limits::Steering { fs, writer, step_bytes: config.step_bytes }
}

impl Node for KernelNode {
    fn identity(&self) -> Identity {
        let mut capabilities = vec!["limits"];
        if self.policies.is_some() {
            capabilities.push("policies");
        }
        if let Some(sampling) = &self.sampling {
            capabilities.push("curves");
            capabilities.extend(sampling.seen());
        }
        Identity {
            kind: if self.policies.is_some() { "cache_ext" } else { "stock" },
            kernel: self.host.line("sys/kernel/osrelease").unwrap_or_default(),
            capabilities,
            policies: self.policies.as_ref().map(|p| p.names()).unwrap_or_default(),
            boot: self.host.line(BOOT_ID).unwrap_or_default(),
        }
    }

    fn pace(&self) -> Pace {
        Pace::RealTime
    }

    fn tick(&mut self, elapsed: Duration) -> Result<()> {
        self.writer.renew();
        self.ticked += elapsed;
        self.since_scan += elapsed;
        self.since_restore += elapsed;
        self.since_step += elapsed;
        self.since_observation += elapsed;
        if self.since_scan >= SCAN_INTERVAL {
            self.scan();
        }
        if self.since_restore >= SCAN_INTERVAL {
            self.since_restore = Duration::ZERO;
            self.restore_strangers();
        }
        if let Some(sampling) = &mut self.sampling {
            sampling.tick(elapsed)?;
        }
        self.measure_policies(elapsed);
        if self.since_step >= STEP_INTERVAL {
            self.since_step = Duration::ZERO;
            self.step_limits();
            self.follow_floors();
        }
        Ok(())
    }

    fn observe(&mut self) -> Result<Observation> {
        self.scan();
        if let Some(sampling) = &mut self.sampling {
            sampling.begin_judging()?;
        }
        let swap_free = self.host.memory_bytes("SwapFree");
        let ids: Vec<u64> = self.tenants.keys().copied().collect();
        let time_us = now_us();
        let others = self.managers.as_ref().map(Managers::seen).unwrap_or_default();
        let mut tenants: Vec<wire::Tenant> = ids
            .into_iter()
            .filter_map(|id| self.observe_tenant(id, swap_free, &others, time_us))
            .collect();
        tenants.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        self.tell_policy_costs(&mut tenants);
        let seconds = std::mem::take(&mut self.since_observation).as_secs_f64();
        let mut loss = self.sampling.as_ref().map(Sampling::loss).unwrap_or_default();
        loss.failed_reads_total = self.failed_reads;
        Ok(Observation {
            time_us,
            budget_bytes: budget_bytes(&self.config, &self.fs, &self.host),
            cpus: self.host.cpus(),
            device: self.device.observe(&self.host, seconds),
            tenants,
            loss,
            conditions: self.conditions.told(conditions::of_host(&others), time_us),
        })
    }

    fn apply(&mut self, action: &wire::Action) -> wire::Result {
        if !self.tenants.contains_key(&action.cgroup_id) {
            // The tenant may have been created since the last scan.
            self.scan();
        }
        let known = self.tenants.get_mut(&action.cgroup_id);
        let Some(tenant) = known.filter(|tenant| tenant.cgroup == action.cgroup) else {
            return tenant::gone(&self.fs, action);
        };
        if self.ledger.get(action.cgroup_id).is_none() {
            // The ledger must record what the tenant has now, even if another program changed it
            // since the last observation.
            tenant.reread(&self.fs, self.policies.as_deref());
        }
        let swap_free = self.host.memory_bytes("SwapFree");
        let usage = match tenant.usage(&self.fs, self.config.margin_bytes, swap_free) {
            Ok(usage) => usage,
            Err(error) => return tenant.failed(&self.fs, &error.to_string()),
        };
        if let Err(error) = self.ledger.note(tenant.id, || tenant.initial(self.fs.root_id())) {
            return tenant.failed(&self.fs, &error.to_string());
        }
        let mut with = steering(&self.fs, &mut self.writer, &self.config);
        tenant.apply(&mut with, self.policies.as_deref(), action, &usage)
    }

    fn name_tasks(&mut self, named: &[wire::NamedTasks]) {
        self.named = tasks::named(named);
        self.follow_tasks();
    }

    fn release(&mut self) -> Vec<wire::Result> {
        let mut results = std::mem::take(&mut self.given_back);
        results.extend(self.restore_all());
        let tenants: Vec<u64> = self.tenants.keys().copied().collect();
        for id in tenants {
            // The restored values are the baseline from which changes by other programs are
            // detected.
            if let Some(tenant) = self.tenants.get_mut(&id) {
                tenant.reread(&self.fs, self.policies.as_deref());
                adoption::keep_yielded(&self.ledger, tenant);
            }
        }
        results
    }

    fn adopted(&self) -> Vec<String> {
        self.adopted.clone()
    }
}

#[cfg(test)]
mod tests;
