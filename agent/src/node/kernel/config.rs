// SPDX-License-Identifier: Apache-2.0
//! The section `[kernel]` of the agent's configuration.

use crate::error::{Error, Result};
use crate::managers;
use crate::managers::pods::SOCKETS;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const MAX_PATTERNS: usize = 1024;

/// Which of the two real nodes is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelKind {
    /// With policies if the kernel has cache_ext, otherwise without.
    #[default]
    Auto,
    /// With policies; without cache_ext, opening the node fails.
    CacheExt,
    /// Without policies, even if the kernel has cache_ext.
    Stock,
}

/// The device that tenants read from. Values of 0 are learnt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceConfig {
    /// Its name in /proc/diskstats; empty means the disk with most reads.
    pub disk: String,
    /// Reads per second that it can serve.
    pub capacity_iops: f64,
    /// Duration of a read when no other request waits, microseconds.
    pub idle_read_us: f64,
}

/// Which cgroups are tenants, and how they are controlled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KernelConfig {
    /// Mount point of the cgroup hierarchy; empty means where this machine has it.
    pub mount: PathBuf,
    /// Cgroup below which tenants are; begins with a slash.
    pub root: String,
    /// Tenants: paths below `root`, with `*`, `?` and `[...]` that do not match a slash.
    #[serde(rename = "match")]
    pub matches: Vec<String>,
    /// Matching cgroups that are not tenants.
    pub exclude: Vec<String>,
    /// Cgroups that are tenants even inside another tenant.
    pub named: Vec<String>,
    /// The device.
    pub device: DeviceConfig,
    /// Memory for all tenants, bytes; 0 means the limit of `root`, or the machine's memory minus a
    /// reserve.
    pub budget_bytes: u64,
    /// Bytes that the machine keeps if `budget_bytes` is 0 and `root` has no limit.
    pub reserve_bytes: u64,
    /// Bytes that the floor of a tenant adds to the memory that cannot be reclaimed.
    pub margin_bytes: u64,
    /// Bytes by which a limit is lowered at a time.
    pub step_bytes: u64,
    /// The longest time in all that the node waits for writes to cgroups between two ticks. A write
    /// that the kernel has not finished by then is reported as started.
    pub write_timeout_ms: u64,
    /// Whether limits of systemd units are set through systemd, as their property `MemoryHigh`.
    pub systemd: bool,
    /// Socket of the container runtime, which names the pods; empty means the usual paths.
    pub cri_socket: PathBuf,
    /// Maximum number of tenants whose accesses are sampled.
    pub max_tenants: u32,
    /// Size of the ring buffer for events between two ticks, a power of two; an event takes 56
    /// bytes.
    pub ring_bytes: u32,
    /// Kernel memory for the attached policies of all tenants together, MiB. A policy for which
    /// nothing is left is refused.
    pub policy_memory_mib: u64,
    /// Folder of compiled policies; empty means the usual one.
    pub policies: PathBuf,
    /// Which node; not a key of the section.
    #[serde(skip)]
    pub kind: KernelKind,
    /// The cgroup of this agent. It and the cgroups above it are not tenants. Not a key of the
    /// section.
    #[serde(skip)]
    pub own: Option<String>,
}

impl Default for KernelConfig {
    fn default() -> Self {
        Self {
            mount: PathBuf::new(),
            root: "/".into(),
            matches: vec!["*".into()],
            exclude: Vec::new(),
            named: Vec::new(),
            device: DeviceConfig::default(),
            budget_bytes: 0,
            reserve_bytes: 512 * MIB,
            margin_bytes: 16 * MIB,
            step_bytes: 16 * MIB,
            write_timeout_ms: 50,
            systemd: true,
            cri_socket: PathBuf::new(),
            max_tenants: 1024,
            ring_bytes: 4 << 20,
            policy_memory_mib: 112,
            policies: PathBuf::new(),
            kind: KernelKind::Auto,
            own: None,
        }
    }
}

impl KernelConfig {
    /// Reads the section of the file `path`. A missing section means all defaults.
    ///
    /// # Errors
    /// Returns [`Error::Config`] with the key, its value and what is allowed.
    pub fn parse(path: &Path, section: Option<&toml::Table>) -> Result<Self> {
        let fail = |message| Error::Config { path: path.into(), message };
        let table = section.cloned().unwrap_or_default();
        let config: Self = table.try_into().map_err(|e: toml::de::Error| {
            let message = e.message().split_whitespace().collect::<Vec<_>>().join(" ");
            fail(format!("[kernel]: {message}"))
        })?;
        config.check().map_err(|message| fail(format!("[kernel]: {message}")))?;
        Ok(config)
    }

    /// How to reach the other programs that manage memory.
    #[must_use]
    pub fn others(&self) -> managers::Settings {
        let sockets = match self.cri_socket.as_os_str().is_empty() {
            true => SOCKETS.map(PathBuf::from).to_vec(),
            false => vec![self.cri_socket.clone()],
        };
        managers::Settings { proc: "/proc".into(), systemd: self.systemd, sockets }
    }

    /// Returns the first mistake in the section as an error.
    fn check(&self) -> std::result::Result<(), String> {
        if !self.root.starts_with('/') || self.root.contains("/..") {
            return Err(format!("root = {:?}: begins with '/', has no '..'", self.root));
        }
        let lists = [("match", &self.matches), ("exclude", &self.exclude), ("named", &self.named)];
        for (key, patterns) in lists {
            if patterns.len() > MAX_PATTERNS {
                return Err(format!(
                    "{key} has {} entries: at most {MAX_PATTERNS}",
                    patterns.len()
                ));
            }
            let odd = |p: &&String| p.is_empty() || p.starts_with('/') || p.contains('\0');
            if let Some(pattern) = patterns.iter().find(odd) {
                return Err(format!("{key} = {pattern:?}: a path below root, without leading '/'"));
            }
        }
        if self.matches.is_empty() && self.named.is_empty() {
            return Err("match = []: name at least one cgroup".into());
        }
        if self.cri_socket.is_relative() && !self.cri_socket.as_os_str().is_empty() {
            return Err(format!("cri_socket = {:?}: an absolute path, or empty", self.cri_socket));
        }
        within("budget_bytes", self.budget_bytes, 0..=1024 * TIB)?;
        within("reserve_bytes", self.reserve_bytes, 0..=1024 * TIB)?;
        within("margin_bytes", self.margin_bytes, MIB..=TIB)?;
        within("step_bytes", self.step_bytes, MIB..=TIB)?;
        within("write_timeout_ms", self.write_timeout_ms, 1..=60_000)?;
        within("max_tenants", self.max_tenants, 1..=4096)?;
        within("ring_bytes", self.ring_bytes, 1 << 16..=1 << 30)?;
        within("policy_memory_mib", self.policy_memory_mib, 1..=1 << 20)?;
        if !self.ring_bytes.is_power_of_two() {
            return Err(format!("ring_bytes = {}: a power of two", self.ring_bytes));
        }
        within("device.capacity_iops", self.device.capacity_iops, 0.0..=1e9)?;
        within("device.idle_read_us", self.device.idle_read_us, 0.0..=1e9)
    }
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    allowed: RangeInclusive<T>,
) -> std::result::Result<(), String> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(format!("{key} = {value}: allowed are {} to {}", allowed.start(), allowed.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KernelConfig> {
        KernelConfig::parse(Path::new("agent.toml"), Some(&toml::from_str(text).unwrap()))
    }

    #[test]
    fn a_missing_section_means_the_defaults() {
        let config = KernelConfig::parse(Path::new("agent.toml"), None).unwrap();
        assert_eq!(config, KernelConfig::default());
    }

    #[test]
    fn keys_are_read() {
        let config = parse(
            "root = '/work'\nmatch = ['a*']\nnamed = ['a/b']\nmargin_bytes = 1048576\n\
             [device]\ndisk = 'vda'\ncapacity_iops = 1500.0",
        )
        .unwrap();
        assert_eq!((config.root.as_str(), config.matches), ("/work", vec!["a*".to_owned()]));
        assert_eq!((config.device.disk.as_str(), config.device.capacity_iops), ("vda", 1500.0));
    }

    #[test]
    fn refusals_name_the_file_the_key_and_what_is_allowed() {
        for (text, words) in [
            ("nope = 1", "unknown field `nope`"),
            ("root = 'work'", "root = \"work\": begins with '/'"),
            ("root = '/a/../b'", "has no '..'"),
            ("match = ['/a']", "match = \"/a\": a path below root"),
            ("match = []", "name at least one cgroup"),
            ("cri_socket = 'run/a.sock'", "cri_socket = \"run/a.sock\": an absolute path"),
            ("margin_bytes = 5", "margin_bytes = 5: allowed are 1048576 to"),
            ("step_bytes = 0", "step_bytes = 0: allowed are"),
            ("max_tenants = 5000", "max_tenants = 5000: allowed are 1 to 4096"),
            ("ring_bytes = 100000", "ring_bytes = 100000: a power of two"),
            ("policy_memory_mib = 0", "policy_memory_mib = 0: allowed are 1 to 1048576"),
            ("device = { capacity_iops = nan }", "device.capacity_iops = NaN: allowed are 0"),
            ("device = { nope = 1 }", "unknown field `nope`"),
            ("budget_bytes = -1", "invalid value"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.starts_with("agent.toml: [kernel]: "), "{message}");
            assert!(message.contains(words) && !message.contains('\n'), "{message}");
        }
    }
}
