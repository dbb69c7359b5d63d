// SPDX-License-Identifier: Apache-2.0
//! Checks of a simulation's values. Every message names the key and what is allowed.

use super::config::{PAGE_BYTES, PhaseConfig, SimulationConfig, SourceConfig, TenantConfig};
use cachepilot_models::policy::MAX_CAPACITY_PAGES;
use std::fmt::Display;
use std::ops::RangeInclusive;

type Checked = Result<(), String>;

/// The most memory of a node: the capacity of the largest simulated cache.
const MAX_BYTES: u64 = MAX_CAPACITY_PAGES * PAGE_BYTES;
pub(super) const MAX_TENANTS: usize = 4096;
const MAX_PHASES: usize = 1000;
const MAX_SECONDS: f64 = 1e8;
const MAX_PAGES: u64 = 1 << 40;
/// The deepest nesting of mixes.
const MAX_DEPTH: usize = 4;

pub(super) fn check(config: &SimulationConfig) -> Checked {
    range("budget_bytes", config.budget_bytes, PAGE_BYTES..=MAX_BYTES)?;
    range("cpus", config.cpus, 0..=10_000)?;
    let slowest = PAGE_BYTES * 100;
    range("reclaim_bytes_per_second", config.reclaim_bytes_per_second, slowest..=1 << 40)?;
    range("device.read_us", config.device.read_us, 0.1..=1e7)?;
    range("device.parallelism", config.device.parallelism, 1..=65_536)?;
    range("device.iops", config.device.iops, 1..=10_000_000)?;
    let least_tenants = usize::from(config.tenants_dir.is_none());
    range("number of tenants", config.tenants.len(), least_tenants..=MAX_TENANTS)?;
    for (i, tenant) in config.tenants.iter().enumerate() {
        let name = |message| format!("tenant {:?}: {message}", tenant.cgroup);
        check_tenant(tenant, config.budget_bytes).map_err(name)?;
        check_alone(tenant, &config.tenants[..i]).map_err(name)?;
    }
    Ok(())
}

pub(super) fn check_tenant(tenant: &TenantConfig, budget_bytes: u64) -> Checked {
    check_cgroup(&tenant.cgroup)?;
    range("concurrency", tenant.concurrency, 1..=100_000)?;
    range("accesses_per_op", tenant.accesses_per_op, 1..=1_000_000)?;
    range("service_us", tenant.service_us, 0.1..=1e9)?;
    range("anon_bytes", tenant.anon_bytes, 0..=budget_bytes - PAGE_BYTES)?;
    let floor = tenant.floor_bytes();
    range("floor_bytes", floor, tenant.anon_bytes + PAGE_BYTES..=budget_bytes)?;
    range("limit_bytes", tenant.limit_bytes, floor..=budget_bytes)?;
    if !tenant.limit_bytes.is_multiple_of(PAGE_BYTES) {
        return Err(format!("limit_bytes: {} is not whole pages of 4096", tenant.limit_bytes));
    }
    range("start_s", tenant.start_s, 0.0..=MAX_SECONDS)?;
    if let Some(stop_s) = tenant.stop_s {
        range("stop_s", stop_s, tenant.start_s + 0.001..=MAX_SECONDS)?;
    }
    range("number of phases", tenant.phases.len(), 1..=MAX_PHASES)?;
    let last = tenant.phases.len() - 1;
    for (i, phase) in tenant.phases.iter().enumerate() {
        let name = |message| format!("phase {}: {message}", i + 1);
        check_phase(phase, i == last).map_err(name)?;
    }
    Ok(())
}

fn check_cgroup(cgroup: &str) -> Checked {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    // The kernel does not allow line breaks either.
    let fine = cgroup.len() <= 1024
        && !cgroup.contains('\n')
        && cgroup.strip_prefix('/').is_some_and(|path| path.split('/').all(plain));
    if fine { Ok(()) } else { Err("cgroup: not of the form /name or /name/name".into()) }
}

/// A cgroup may appear again later, but not twice at the same time.
fn check_alone(tenant: &TenantConfig, others: &[TenantConfig]) -> Checked {
    let stop = |t: &TenantConfig| t.stop_s.unwrap_or(f64::INFINITY);
    let overlaps = |other: &&TenantConfig| {
        other.cgroup == tenant.cgroup
            && other.start_s < stop(tenant)
            && tenant.start_s < stop(other)
    };
    match others.iter().find(overlaps) {
        Some(_) => Err("cgroup: two tenants have it at the same time".into()),
        None => Ok(()),
    }
}

fn check_phase(phase: &PhaseConfig, last: bool) -> Checked {
    let ends = usize::from(phase.seconds.is_some())
        + usize::from(phase.accesses.is_some())
        + usize::from(phase.passes.is_some());
    match (last, ends) {
        (true, 0) | (false, 1) => {}
        (true, _) => return Err("the last phase goes on for ever, it has no end".into()),
        (false, _) => return Err("needs one of seconds, accesses and passes".into()),
    }
    phase.seconds.map_or(Ok(()), |s| range("seconds", s, 0.001..=MAX_SECONDS))?;
    phase.accesses.map_or(Ok(()), |a| range("accesses", a, 1..=1 << 50))?;
    phase.passes.map_or(Ok(()), |p| range("passes", p, 1..=1 << 30))?;
    if phase.passes.is_some()
        && !matches!(phase.source, SourceConfig::Trace { .. } | SourceConfig::Loop { .. })
    {
        return Err("passes: only a trace and a loop have an end".into());
    }
    check_source(&phase.source, MAX_DEPTH).map_err(|message| format!("source.{message}"))
}

fn check_source(source: &SourceConfig, depth: usize) -> Checked {
    match source {
        SourceConfig::Trace { path, .. } if path.as_os_str().is_empty() => {
            Err("path: is empty".into())
        }
        SourceConfig::Trace { .. } => Ok(()),
        SourceConfig::Zipf { alpha, pages, .. } => {
            range("alpha", *alpha, 0.01..=10.0)?;
            range("pages", *pages, 1..=MAX_PAGES)
        }
        SourceConfig::Uniform { pages, .. } | SourceConfig::Loop { pages, .. } => {
            range("pages", *pages, 1..=MAX_PAGES)
        }
        SourceConfig::Mix { share, first, second } => {
            if depth == 0 {
                return Err(format!("kind: mixes are nested more than {MAX_DEPTH} deep"));
            }
            range("share", *share, 0.0..=1.0)?;
            check_source(first, depth - 1).map_err(|e| format!("first.{e}"))?;
            check_source(second, depth - 1).map_err(|e| format!("second.{e}"))
        }
    }
}

fn range<T: PartialOrd + Display>(key: &str, value: T, allowed: RangeInclusive<T>) -> Checked {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(format!("{key}: {value} is not in {}..={}", allowed.start(), allowed.end()))
}
