// SPDX-License-Identifier: Apache-2.0
//! Queries the other programs repeatedly: programs rarely, units and workloads when there are new
//! tenants.

use super::pods::{self, Pods};
use super::systemd::{Systemd, lineage, unit_name};
use super::{Finding, OfTenant, Seen, Settings, Shared, programs};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Interval at which the tenants are checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which facts that rarely change are queried again.
const REFRESH_INTERVAL: Duration = Duration::from_secs(600);
/// Time until a runtime that does not know a cgroup, or does not answer, is queried again: at
/// first, and at most.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(64);

/// Queries until the future is dropped. The findings are put together only when something changed.
pub(super) async fn run(settings: &Settings, systemd: Option<&Systemd>, shared: &Shared) {
    let mut ticks = interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut programs = Programs::default();
    let mut units = Units::default();
    let mut workloads = Workloads::default();
    let mut known = Arc::new(Vec::new());
    loop {
        ticks.tick().await;
        let tenants = Arc::clone(&shared.tenants.lock().unwrap_or_else(PoisonError::into_inner));
        let is_new = !Arc::ptr_eq(&tenants, &known);
        let mut has_changed = is_new;
        if is_over(programs.due) {
            programs.look(&settings.proc).await;
            has_changed = true;
        }
        if let Some(systemd) = systemd.filter(|_| is_new || is_over(units.due)) {
            units.look(systemd, &tenants).await;
            has_changed = true;
        }
        if is_new || workloads.retry.is_some_and(|(due, _)| is_over(Some(due))) {
            workloads.look(&settings.sockets, &tenants).await;
            has_changed = true;
        }
        if has_changed {
            let seen = Arc::new(together(&programs, &units, &workloads, &tenants));
            *shared.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        }
        known = tenants;
    }
}

/// Whether a time has come, or was never set.
fn is_over(due: Option<Instant>) -> bool {
    due.is_none_or(|due| due <= Instant::now())
}

fn together(programs: &Programs, units: &Units, workloads: &Workloads, tenants: &[String]) -> Seen {
    let of_tenant = |cgroup: &String| {
        let named = workloads.pods.of_cgroup(cgroup);
        let mut findings = units.of(cgroup);
        findings.extend(named.into_iter().flat_map(|named| named.findings.clone()));
        let workload = named.map(|named| named.workload.clone());
        (cgroup.clone(), OfTenant { findings, workload })
    };
    let found: BTreeMap<String, OfTenant> = tenants.iter().map(of_tenant).collect();
    let host = programs.found.iter().chain(&workloads.problem).cloned().collect();
    Seen { host, tenants: found }
}

#[derive(Default)]
struct Programs {
    found: Vec<Finding>,
    due: Option<Instant>,
}

impl Programs {
    async fn look(&mut self, proc: &Path) {
        let proc = proc.to_path_buf();
        // These are thousands of small files. Other tasks of the runtime go on in the meantime.
        let found = tokio::task::spawn_blocking(move || programs::running(&proc)).await;
        self.found = found.unwrap_or_default();
        self.due = Some(Instant::now() + REFRESH_INTERVAL);
    }
}

/// What systemd-oomd does to units, and when each is queried again.
#[derive(Default)]
struct Units {
    kills: HashMap<String, (Vec<&'static str>, Instant)>,
    /// The earliest of these times.
    due: Option<Instant>,
}

impl Units {
    async fn look(&mut self, systemd: &Systemd, tenants: &[String]) {
        let now = Instant::now();
        let mut known = std::mem::take(&mut self.kills);
        for cgroup in tenants.iter().flat_map(|tenant| lineage(tenant)) {
            if self.kills.contains_key(cgroup) {
                continue;
            }
            let entry = match known.remove(cgroup) {
                Some(entry) if entry.1 > now => entry,
                _ => match kills(systemd, cgroup).await {
                    Ok(found) => (found, now + REFRESH_INTERVAL),
                    Err(error) => {
                        tracing::debug!(%error, cgroup, "systemd does not tell of it");
                        (Vec::new(), now + RETRY_INTERVAL_MAX)
                    }
                },
            };
            self.kills.insert(cgroup.to_owned(), entry);
        }
        let first = self.kills.values().map(|(_, due)| *due).min();
        self.due = Some(first.unwrap_or(now + REFRESH_INTERVAL));
    }

    /// The findings about a cgroup and all units that it is in: whatever kills these may kill the
    /// cgroup.
    fn of(&self, cgroup: &str) -> Vec<Finding> {
        let of_unit = |above: &str| {
            let (properties, _) = self.kills.get(above).filter(|(found, _)| !found.is_empty())?;
            let (unit, _) = unit_name(above)?;
            Some(Finding {
                key: format!("systemd-oomd {unit}"),
                message: format!(
                    "systemd-oomd may kill it: {}=kill of {unit}",
                    properties.join("=kill and ")
                ),
            })
        };
        lineage(cgroup).filter_map(of_unit).collect()
    }
}

async fn kills(systemd: &Systemd, cgroup: &str) -> zbus::Result<Vec<&'static str>> {
    match systemd.unit_of(cgroup).await? {
        Some(unit) => systemd.managed_oom(&unit).await,
        None => Ok(Vec::new()),
    }
}

/// Names of workloads, and the reason if there are none.
#[derive(Default)]
struct Workloads {
    pods: Pods,
    problem: Option<Finding>,
    /// When the runtime is queried again about unknown cgroups, and the pause after that.
    retry: Option<(Instant, Duration)>,
    asked_for: Vec<String>,
}

impl Workloads {
    async fn look(&mut self, sockets: &[PathBuf], tenants: &[String]) {
        let is_unknown = |c: &&String| pods::is_pod(c) && self.pods.of_cgroup(c).is_none();
        let unknown: Vec<String> = tenants.iter().filter(is_unknown).cloned().collect();
        if unknown.is_empty() {
            (self.problem, self.retry) = (None, None);
            return;
        }
        let is_new = unknown.iter().any(|cgroup| !self.asked_for.contains(cgroup));
        let now = Instant::now();
        let wait = match self.retry {
            // One retry follows soon, as a cgroup is created before the runtime lists its
            // container.
            Some((due, _)) if due > now && !is_new => return,
            Some((_, wait)) if !is_new => (2 * wait).min(RETRY_INTERVAL_MAX),
            _ => RETRY_INTERVAL,
        };
        self.retry = Some((now + wait, wait));
        let problem = match sockets.iter().find(|socket| socket.exists()) {
            None => Some("no container runtime listens where this agent sees it".to_owned()),
            Some(socket) => match Pods::ask(socket).await {
                Ok(pods) => {
                    self.pods = pods;
                    None
                }
                Err(error) => Some(error),
            },
        };
        self.asked_for = unknown;
        self.problem = problem.map(|problem| Finding {
            key: "container runtime".into(),
            message: format!("pods have no names here: {problem}"),
        });
    }
}
