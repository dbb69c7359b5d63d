// SPDX-License-Identifier: Apache-2.0
//! Metrics of the node as a whole.

use super::Seen;
use super::encode::Families;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt;

/// The last observation.
#[derive(Debug)]
pub struct NodeSeen(pub Seen);

impl Collector for NodeSeen {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let Self(Seen { observation: seen, at, .. }) = self;
        let mut families = Families(encoder);
        let mut counter = |name, help, value: u64| families.one_counter((name, help, None), value);
        let (device, loss) = (&seen.device, &seen.loss);
        counter("cachepilot_device_reads", "Reads that the device served", device.reads_total)?;
        let dropped = "Sampled events for which there was no room";
        counter("cachepilot_loss_dropped_events", dropped, loss.dropped_events_total)?;
        let untracked = "Tenants for which there was no slot or no memory";
        counter("cachepilot_loss_untracked_tenants", untracked, loss.untracked_tenants_total)?;
        let failed = "Reads of the files of cgroups that failed";
        counter("cachepilot_loss_failed_reads", failed, loss.failed_reads_total)?;
        let spent = "Time that reads took, queueing included";
        let seconds = device.read_time_us_total as f64 / 1e6;
        families.one_counter(("cachepilot_device_read", spent, Some(&Unit::Seconds)), seconds)?;
        let mut gauge =
            |name, help, unit, value: f64| families.one_gauge((name, help, unit), value);
        let capacity = "Reads per second that the device can serve, 0 if it is unknown";
        gauge("cachepilot_device_capacity_iops", capacity, None, device.capacity_iops)?;
        let idle = "Duration of a read when no other read waits, 0 if it is unknown";
        let seconds = Some(&Unit::Seconds);
        gauge("cachepilot_device_idle_read", idle, seconds, device.idle_read_us / 1e6)?;
        let budget = "Memory that all tenants share";
        let bytes = Some(&Unit::Bytes);
        gauge("cachepilot_budget", budget, bytes, seen.budget_bytes as f64)?;
        let cpus = "CPUs that are online, 0 if it is unknown";
        gauge("cachepilot_cpus", cpus, None, f64::from(seen.cpus))?;
        gauge("cachepilot_tenants", "Tenants", None, seen.tenants.len() as f64)?;
        let old = "Age of the last observation of the node";
        gauge("cachepilot_observation_age", old, seconds, at.elapsed().as_secs_f64())
    }
}
