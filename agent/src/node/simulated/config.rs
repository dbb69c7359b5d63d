// SPDX-License-Identifier: Apache-2.0
//! The configuration of a simulated node: the section `[simulated]` of the agent's configuration,
//! or a file of its own that this section names with `file`.

use super::validate;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;

/// How node time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaceConfig {
    /// With the wall clock, if the host can keep up.
    #[default]
    Real,
    /// By calls of `tick` only, as fast as the host can.
    Virtual,
}

/// A simulated node. [`SimulationConfig::check`] checks every value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulationConfig {
    /// File with the rest of the configuration, relative to the file that names it. No other key
    /// may be given then.
    pub file: Option<PathBuf>,
    /// Memory that all tenants share, bytes.
    pub budget_bytes: u64,
    /// CPUs that the node reports, 0 for none. Operations never wait for a CPU.
    pub cpus: u32,
    /// How time passes.
    pub pace: PaceConfig,
    /// Seed of all random numbers of the node.
    pub seed: u64,
    /// The rate at which a limit is lowered.
    pub reclaim_bytes_per_second: u64,
    /// The device that the tenants share.
    pub device: DeviceConfig,
    /// A folder of further tenants, relative to the file that names it. Each `*.toml` in it is one
    /// tenant, with the keys of `[[tenant]]` except `start_s` and `stop_s`: it starts when the file
    /// appears and stops when the file is removed. The folder is read once per second of node time.
    pub tenants_dir: Option<PathBuf>,
    /// The tenants.
    #[serde(rename = "tenant")]
    pub tenants: Vec<TenantConfig>,
}

impl Default for SimulationConfig {
    fn default() -> Self {
        Self {
            file: None,
            budget_bytes: 0,
            cpus: 0,
            pace: PaceConfig::default(),
            seed: 0,
            reclaim_bytes_per_second: 256 << 20,
            device: DeviceConfig::default(),
            tenants_dir: None,
            tenants: Vec::new(),
        }
    }
}

/// A storage device: a number of concurrent reads, each of a fixed duration, and a maximum rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceConfig {
    /// Duration of a read when no other one waits, microseconds.
    pub read_us: f64,
    /// Number of reads that are served concurrently.
    pub parallelism: u32,
    /// The most reads that begin per second.
    pub iops: u32,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self { read_us: 100.0, parallelism: 32, iops: 100_000 }
    }
}

/// A tenant: a closed loop of operations over a page cache of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// Path of its cgroup; begins with a slash.
    pub cgroup: String,
    /// Operations in flight; the next one begins when one ends.
    #[serde(default = "one")]
    pub concurrency: u32,
    /// Page accesses per operation, one after another.
    #[serde(default = "one")]
    pub accesses_per_op: u32,
    /// CPU time of an operation, microseconds: its time without waiting for reads.
    pub service_us: f64,
    /// The first limit, bytes.
    pub limit_bytes: u64,
    /// Memory that cannot be reclaimed, bytes; it counts against the limit.
    #[serde(default)]
    pub anon_bytes: u64,
    /// The floor, bytes; by default `anon_bytes` plus 1 MiB.
    pub floor_bytes: Option<u64>,
    /// Node time at which the tenant appears.
    #[serde(default)]
    pub start_s: f64,
    /// Node time at which it disappears; by default never.
    pub stop_s: Option<f64>,
    /// Its phases, one after another; the last one has no end.
    #[serde(rename = "phase")]
    pub phases: Vec<PhaseConfig>,
}

fn one() -> u32 {
    1
}

/// Default distance of the floor above the memory that cannot be reclaimed.
const FLOOR_MARGIN_BYTES: u64 = 1 << 20;

impl TenantConfig {
    /// The floor: the least limit that the tenant may be given, bytes.
    #[must_use]
    pub fn floor_bytes(&self) -> u64 {
        self.floor_bytes.unwrap_or(self.anon_bytes.saturating_add(FLOOR_MARGIN_BYTES))
    }
}

/// A phase: a source of accesses, and the condition for the next phase, which is one of `seconds`,
/// `accesses` or `passes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseConfig {
    /// Duration in node time.
    pub seconds: Option<f64>,
    /// Number of accesses.
    pub accesses: Option<u64>,
    /// Number of passes through a trace or a loop.
    pub passes: Option<u64>,
    /// The source of its accesses.
    pub source: SourceConfig,
}

/// A source of accesses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceConfig {
    /// A recorded trace, which is started again when it ends.
    Trace {
        /// The file, in any format of `cachepilot_models::trace`; relative to the configuration.
        path: PathBuf,
        /// Column of a CSV file that contains the page.
        column: Option<String>,
        /// Added to every page key.
        #[serde(default)]
        offset: u64,
    },
    /// Independent draws; the page of rank k has a probability in proportion to 1 / k^alpha.
    Zipf {
        /// The exponent.
        alpha: f64,
        /// Distinct pages.
        pages: u64,
        /// The first page key.
        #[serde(default)]
        offset: u64,
    },
    /// Independent draws with equal probabilities.
    Uniform {
        /// Distinct pages.
        pages: u64,
        /// The first page key.
        #[serde(default)]
        offset: u64,
    },
    /// One page after another, repeated.
    Loop {
        /// Distinct pages.
        pages: u64,
        /// The first page key.
        #[serde(default)]
        offset: u64,
    },
    /// Each access is from one of two sources, chosen at random.
    Mix {
        /// Share of the accesses from the first source, 0 to 1.
        share: f64,
        /// The first source.
        first: Box<SourceConfig>,
        /// The second source.
        second: Box<SourceConfig>,
    },
}

impl SimulationConfig {
    /// Reads a configuration from a file of its own.
    ///
    /// # Errors
    /// Returns [`Error::Io`], or [`Error::Config`] with the file, the key and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io(path))?;
        let parsed: Self = toml::from_str(&text).map_err(|e| config_error(path, &e.to_string()))?;
        if parsed.file.is_some() {
            return Err(config_error(path, "file: only the section [simulated] may name a file"));
        }
        parsed.resolve(path)
    }

    /// Completes a section of the file `config_path`: loads `file` if it names one, makes paths of
    /// traces relative to the file that contains them, and checks every value.
    ///
    /// # Errors
    /// As [`SimulationConfig::load`].
    pub fn resolve(mut self, config_path: &Path) -> Result<Self> {
        let folder = config_path.parent().unwrap_or(Path::new(""));
        if let Some(file) = self.file.take() {
            if self != Self::default() {
                let message = "simulated.file: nothing else may be given beside it";
                return Err(config_error(config_path, message));
            }
            return Self::load(&folder.join(file));
        }
        self.tenants_dir = self.tenants_dir.map(|path| folder.join(path));
        let phases = self.tenants.iter_mut().flat_map(|t| &mut t.phases);
        phases.for_each(|phase| phase.source.resolve(folder));
        self.check().map_err(|message| config_error(config_path, &message))?;
        Ok(self)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// One line with the key and what is allowed.
    pub fn check(&self) -> std::result::Result<(), String> {
        validate::check(self)
    }
}

impl SourceConfig {
    pub(super) fn resolve(&mut self, folder: &Path) {
        match self {
            Self::Trace { path, .. } => *path = folder.join(&*path),
            Self::Mix { first, second, .. } => {
                first.resolve(folder);
                second.resolve(folder);
            }
            Self::Zipf { .. } | Self::Uniform { .. } | Self::Loop { .. } => {}
        }
    }
}

fn config_error(path: &Path, message: &str) -> Error {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Error::Config { path: path.to_path_buf(), message }
}
