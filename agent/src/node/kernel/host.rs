// SPDX-License-Identifier: Apache-2.0
//! Facts about the machine, and the device that tenants read from.

use super::config::{DeviceConfig, KernelConfig};
use crate::cgroup::fs::CgroupFs;
use crate::wire;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The least number of reads in an interval from which the device's properties are learnt.
const MIN_READS: u64 = 16;
/// The mean number of requests in flight from which the device counts as busy.
const BUSY_REQUESTS: f64 = 2.0;

/// `/proc` and `/sys`, or folders in their place.
#[derive(Debug, Clone)]
pub struct Host {
    proc: PathBuf,
    sys: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::new("/proc", "/sys")
    }
}

impl Host {
    /// A machine whose `/proc` and `/sys` are these folders.
    #[must_use]
    pub fn new(proc: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), sys: sys.into() }
    }

    /// Reads a file below `/proc` that has one line.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn line(&self, name: &str) -> io::Result<String> {
        Ok(fs::read_to_string(self.proc.join(name))?.trim().to_owned())
    }

    /// The value of a line of `/proc/meminfo`, in bytes; 0 if the line is missing.
    #[must_use]
    pub fn memory_bytes(&self, key: &str) -> u64 {
        let text = fs::read_to_string(self.proc.join("meminfo")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// CPUs that are online; 0 if that cannot be read.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        let file = self.sys.join("devices/system/cpu/online");
        fs::read_to_string(file).ok().and_then(|text| count(text.trim())).unwrap_or(0)
    }

    /// Totals of a disk, or of the whole disk with most reads if `name` is empty.
    fn disk(&self, name: &str) -> Option<DiskTotals> {
        let text = fs::read_to_string(self.proc.join("diskstats")).ok()?;
        let disks = text.lines().filter_map(DiskTotals::parse);
        match name {
            "" => disks.filter(|d| is_disk(&self.sys, &d.name)).max_by_key(|d| d.reads),
            name => disks.into_iter().find(|d| d.name == name),
        }
    }
}

/// The number of integers in a list of ranges, such as `0-3,5`.
fn count(list: &str) -> Option<u32> {
    let length = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.split(',').try_fold(0_u32, |sum, range| sum.checked_add(length(range)?))
}

/// Memory that all tenants share, bytes: the configured value, the limit of their root, or the
/// machine's memory minus the reserve.
pub(super) fn budget_bytes(config: &KernelConfig, fs: &CgroupFs, host: &Host) -> u64 {
    if config.budget_bytes > 0 {
        return config.budget_bytes;
    }
    let limit = fs.limit(&config.root, "memory.max").ok().flatten();
    let total = host.memory_bytes("MemTotal");
    limit.unwrap_or_else(|| total.saturating_sub(config.reserve_bytes))
}

/// Whether a device is a whole disk. Partitions have no folder of their own in `/sys/block`. Loop
/// and RAM disks are excluded, as they are backed by other devices or by memory.
fn is_disk(sys: &Path, name: &str) -> bool {
    let virtual_disk = ["loop", "ram", "zram"].iter().any(|prefix| name.starts_with(prefix));
    !virtual_disk && sys.join("block").join(name).exists()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct DiskTotals {
    name: String,
    reads: u64,
    read_ms: u64,
    /// Milliseconds summed over all requests in flight.
    waiting_ms: u64,
}

impl DiskTotals {
    /// Parses a line of `/proc/diskstats` (Documentation/admin-guide/iostats.rst).
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse().ok();
        let name = (*words.get(2)?).to_owned();
        Some(Self { name, reads: number(3)?, read_ms: number(6)?, waiting_ms: number(13)? })
    }
}

/// The device: totals since this value was created, and what was learnt about it.
#[derive(Debug)]
pub struct Device {
    config: DeviceConfig,
    disk: String,
    first: DiskTotals,
    last: DiskTotals,
    capacity_iops: f64,
    idle_read_us: f64,
}

impl Device {
    /// The configured device, or the disk with most reads so far.
    #[must_use]
    pub fn new(host: &Host, config: &DeviceConfig) -> Self {
        let first = host.disk(&config.disk).unwrap_or_default();
        let disk = first.name.clone();
        let (config, last) = (config.clone(), first.clone());
        Self { config, disk, first, last, capacity_iops: 0.0, idle_read_us: 0.0 }
    }

    /// Observes the device `seconds` after the last observation. Values that are not configured are
    /// learnt: the capacity is the highest rate of reads seen while requests queued, a lower bound
    /// of the truth; the idle read time is the shortest mean of an interval, an upper bound.
    pub fn observe(&mut self, host: &Host, seconds: f64) -> wire::Device {
        if let Some(now) = host.disk(&self.disk).filter(|_| !self.disk.is_empty()) {
            self.learn(&now, seconds);
            self.last = now;
        }
        let known = |configured: f64, learnt: f64| match configured > 0.0 {
            true => configured,
            false => learnt,
        };
        wire::Device {
            capacity_iops: known(self.config.capacity_iops, self.capacity_iops),
            idle_read_us: known(self.config.idle_read_us, self.idle_read_us),
            reads_total: self.last.reads.saturating_sub(self.first.reads),
            read_time_us_total: self.last.read_ms.saturating_sub(self.first.read_ms) * 1000,
        }
    }

    fn learn(&mut self, now: &DiskTotals, seconds: f64) {
        let reads = now.reads.saturating_sub(self.last.reads);
        if reads < MIN_READS || seconds <= 0.0 {
            return;
        }
        let waiting = now.waiting_ms.saturating_sub(self.last.waiting_ms) as f64 / 1000.0;
        if waiting / seconds >= BUSY_REQUESTS {
            self.capacity_iops = self.capacity_iops.max(reads as f64 / seconds);
        }
        let mean_us = now.read_ms.saturating_sub(self.last.read_ms) as f64 * 1000.0 / reads as f64;
        if mean_us > 0.0 && (self.idle_read_us == 0.0 || mean_us < self.idle_read_us) {
            self.idle_read_us = mean_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(dir: &Path, lines: &str) -> Host {
        fs::create_dir_all(dir.join("proc")).unwrap();
        fs::write(dir.join("proc/diskstats"), lines).unwrap();
        for disk in ["vda", "loop0"] {
            fs::create_dir_all(dir.join("sys/block").join(disk)).unwrap();
        }
        Host::new(dir.join("proc"), dir.join("sys"))
    }

    fn line(name: &str, reads: u64, ms: u64, waiting: u64) -> String {
        format!(" 254 0 {name} {reads} 0 800 {ms} 5 0 40 9 0 50 {waiting} 0 0 0 0 0 0\n")
    }

    #[test]
    fn the_busiest_whole_disk_is_the_device() {
        let dir = tempfile::tempdir().unwrap();
        let lines = line("vda", 10, 0, 0) + &line("vda1", 50, 0, 0) + &line("loop0", 99, 0, 0);
        let found = host(dir.path(), &lines);
        assert_eq!(Device::new(&found, &DeviceConfig::default()).disk, "vda");
        let named = DeviceConfig { disk: "vda1".into(), ..DeviceConfig::default() };
        assert_eq!(Device::new(&found, &named).disk, "vda1");
    }

    #[test]
    fn totals_count_from_the_start_and_bounds_are_learnt() {
        let dir = tempfile::tempdir().unwrap();
        let host = |text: String| host(dir.path(), &text);
        let mut device = Device::new(&host(line("vda", 1000, 500, 500)), &DeviceConfig::default());
        let quiet = device.observe(&host(line("vda", 1100, 520, 520)), 1.0);
        assert_eq!((quiet.reads_total, quiet.read_time_us_total), (100, 20_000));
        assert_eq!((quiet.capacity_iops, quiet.idle_read_us), (0.0, 200.0));
        let busy = device.observe(&host(line("vda", 4100, 8520, 8520)), 2.0);
        assert_eq!((busy.capacity_iops, busy.idle_read_us), (1500.0, 200.0));
        device.config.capacity_iops = 1200.0;
        let told = device.observe(&host(line("vda", 4100, 8520, 8520)), 1.0);
        assert_eq!(told.capacity_iops, 1200.0);
    }

    #[test]
    fn cpus_are_counted_from_a_list_of_ranges() {
        for (list, cpus) in [
            ("0", Some(1)),
            ("0-3", Some(4)),
            ("0-1,4,6-7", Some(5)),
            ("", None),
            ("3-1", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(count(list), cpus, "{list}");
        }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path(), "");
        fs::write(dir.path().join("proc/meminfo"), "MemTotal:  2048 kB\nSwapFree: 1 kB\n").unwrap();
        assert_eq!(host.memory_bytes("MemTotal"), 2 << 20);
        assert_eq!(host.memory_bytes("Mem"), 0);
    }
}
