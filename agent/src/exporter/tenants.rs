// SPDX-License-Identifier: Apache-2.0
//! Metrics of each tenant: 31 series, and 3 more for a readahead policy of its own. The limit, the
//! memory in use and whether curves are trusted are among the controller's metrics, once for the
//! whole fleet.

use super::encode::Families;
use crate::node::Observation;
use crate::wire::readahead::Pages;
use crate::wire::{Counters, Tenant};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::fmt;
use std::sync::Arc;

/// Number of buckets with a bound. The upper bounds are powers of four of a microsecond, up to
/// 4^12: 16.8 seconds.
const LATENCY_BOUNDS: usize = 12;

/// All tenants of an observation.
#[derive(Debug)]
pub struct Tenants(pub Arc<Observation>);

type Total = (&'static str, &'static str, fn(&Counters) -> u64);

/// Counters without a unit.
const TOTALS: [Total; 7] = [
    ("accesses", "Page cache accesses", |c| c.accesses_total),
    ("misses", "Accesses for which a page was added", |c| c.misses_total),
    ("refaults", "Misses on pages evicted not long ago", |c| c.refaults_total),
    ("evictions", "Pages evicted", |c| c.evictions_total),
    ("readahead_pages", "Pages that readahead added", |c| c.readahead_pages_total),
    ("mmap_accesses", "Observed accesses through page tables", |c| c.mmap_accesses_total),
    ("block_reads", "Reads from the device", |c| c.block_reads_total),
];

/// Counters of microseconds.
const STALLS: [Total; 2] = [
    ("memory_stall", "Time in which a task waited for memory", |c| c.memory_stall_us_total),
    ("io_stall", "Time in which a task waited for input or output", |c| c.io_stall_us_total),
];

type Ahead = (&'static str, &'static str, fn(&Pages) -> u64);

/// Counters of pages that the readahead policy read, for a tenant with one of its own.
const AHEAD: [Ahead; 3] = [
    ("ahead", "Pages that its readahead policy read ahead", |p| p.ahead_total),
    ("used", "Pages that its readahead policy read ahead and that were accessed since", |p| {
        p.used_total
    }),
    (
        "wasted",
        "Pages that its readahead policy read ahead and that were evicted without an access",
        |p| p.wasted_total,
    ),
];

type Amount = (&'static str, &'static str, fn(&Tenant) -> u64);

/// Gauges of bytes.
const SIZES: [Amount; 4] = [
    ("initial_limit", "Limit that the tenant had when the agent first saw it, 0 for none", |t| {
        t.initial_limit_bytes
    }),
    ("file", "Page cache", |t| t.file_bytes),
    ("anon", "Anonymous memory", |t| t.anon_bytes),
    ("mapped", "Page cache that is mapped and in use", |t| t.mapped_bytes),
];

/// Gauges without a unit.
const AMOUNTS: [Amount; 1] =
    [("curves_generation", "How often the curves changed", |t| t.curves_generation)];

impl Collector for Tenants {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let tenants = &self.0.tenants;
        let mut families = Families(encoder);
        for (name, help, value) in TOTALS {
            let name = format!("cachepilot_tenant_{name}");
            let values = counters(tenants).map(|(labels, c)| (labels, value(c)));
            families.counter((&name, help, None), values)?;
        }
        for (name, help, value) in STALLS {
            let name = format!("cachepilot_tenant_{name}");
            let values = counters(tenants).map(|(labels, c)| (labels, value(c) as f64 / 1e6));
            families.counter((&name, help, Some(&Unit::Seconds)), values)?;
        }
        for (amounts, unit) in [(&SIZES[..], Some(&Unit::Bytes)), (&AMOUNTS[..], None)] {
            for (name, help, value) in amounts {
                let name = format!("cachepilot_tenant_{name}");
                let values = tenants.iter().map(|t| (labels(t), value(t) as f64));
                families.gauge((&name, help, unit), values)?;
            }
        }
        let name = "cachepilot_tenant_read_latency";
        let help = "Read calls by duration";
        let values = counters(tenants).map(|(labels, c)| {
            let seconds = c.read_time_us_total as f64 / 1e6;
            (labels, seconds, c.read_latency_total.iter().sum(), latency(c))
        });
        families.histogram((name, help, Some(&Unit::Seconds)), values)?;
        let name = "cachepilot_tenant_policy_cpu_per_access";
        let help = "CPU time of the programs of its policy per access, as last measured";
        let costs =
            tenants.iter().filter_map(|t| Some((labels(t), t.policy_cpu_us_per_access? / 1e6)));
        families.gauge((name, help, Some(&Unit::Seconds)), costs)?;
        ahead(&mut families, tenants)?;
        policies(&mut families, tenants)
    }
}

/// Counters of the readahead policy. They are absent if the policy does not report them, which
/// differs from 0.
fn ahead(families: &mut Families<'_>, tenants: &[Tenant]) -> fmt::Result {
    for (name, help, value) in AHEAD {
        let name = format!("cachepilot_tenant_prefetch_{name}_pages");
        let pages = |t: &Tenant| t.readahead.as_ref().and_then(|policy| policy.pages);
        let values = tenants.iter().filter_map(|t| Some((labels(t), value(&pages(t)?))));
        families.counter((&name, help, None), values)?;
    }
    Ok(())
}

/// The policies of each tenant as labels of a metric with the value 1.
fn policies(families: &mut Families<'_>, tenants: &[Tenant]) -> fmt::Result {
    let name = "cachepilot_tenant_policy";
    let help = "The eviction policy in force, and the readahead policy if there is one";
    let mut family = families.0.encode_descriptor(name, help, None, MetricType::Info)?;
    for tenant in tenants {
        let mut labels = vec![("cgroup", &tenant.cgroup), ("policy", &tenant.policy)];
        labels.extend(tenant.readahead.iter().map(|policy| ("readahead", &policy.policy)));
        family.encode_info(&labels)?;
    }
    Ok(())
}

fn labels(tenant: &Tenant) -> [(&'static str, &str); 1] {
    [("cgroup", tenant.cgroup.as_str())]
}

fn counters(tenants: &[Tenant]) -> impl Iterator<Item = ([(&'static str, &str); 1], &Counters)> {
    tenants.iter().filter_map(|t| t.counters.as_ref().map(|c| (labels(t), c)))
}

/// Histogram of read calls. Eight buckets on the wire make one bucket here; longer calls than the
/// last bound are in the bucket without a bound.
fn latency(counters: &Counters) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = (0..LATENCY_BOUNDS)
        .map(|exponent| {
            // Bucket 4e + m ends at (5 + m) * 2^e / 4 microseconds, so the last one of an exponent
            // ends at 2^(e+1). The first bound is at 4 microseconds.
            let bound = (4_u64 << (2 * exponent)) as f64 / 1e6;
            let eighths = counters.read_latency_total.iter().skip(8 * exponent).take(8);
            (bound, eighths.sum())
        })
        .collect();
    let longer = counters.read_latency_total.iter().skip(8 * LATENCY_BOUNDS).sum();
    buckets.push((f64::INFINITY, longer));
    buckets
}
