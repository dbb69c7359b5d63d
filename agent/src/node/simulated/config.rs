// SPDX-License-Identifier: Apache-2.0
//! What a simulated node is made of: the section `[simulated]` of the agent's configuration, or a
//! file of its own that this section names by `file`.

use super::validate;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// How node time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaceConfig {
    /// With the wall clock, as far as the host keeps up.
    #[default]
    Real,
    /// When the node is told to, as fast as the host can.
    Virtual,
}

/// A simulated node. Every value is checked by [`SimulationConfig::check`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulationConfig {
    /// Where the rest is, relative to the file that says so; then nothing else may be given.
    pub file: Option<PathBuf>,
    /// Memory that all tenants share.
    pub budget_bytes: u64,
    /// CPUs that are told of the node, 0 for none; operations never wait for one.
    pub cpus: u32,
    /// How time passes.
    pub pace: PaceConfig,
    /// Seed of every random number of the node.
    pub seed: u64,
    /// How fast a limit comes down.
    pub reclaim_bytes_per_second: u64,
    /// The device that the tenants share.
    pub device: DeviceConfig,
    /// A folder of tenants beside those below, relative to the file that says so. Each `*.toml` in
    /// it is one, with the keys of `[[tenant]]` but `start_s` and `stop_s`: it starts when the file
    /// appears and stops when the file goes away, by a look once per second of node time.
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

/// A storage device: so many reads at once, each of a fixed time, and at most so many a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceConfig {
    /// What a read takes when nothing waits.
    pub read_us: f64,
    /// Reads served at once.
    pub parallelism: u32,
    /// Reads begun per second at most.
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
    /// Page accesses of an operation, one after another.
    #[serde(default = "one")]
    pub accesses_per_op: u32,
    /// Time of an operation that is not spent waiting for reads: CPU time.
    pub service_us: f64,
    /// The limit at first.
    pub limit_bytes: u64,
    /// Memory that cannot be reclaimed; it counts against the limit.
    #[serde(default)]
    pub anon_bytes: u64,
    /// The least limit; without it `anon_bytes` and 1 MiB.
    pub floor_bytes: Option<u64>,
    /// Node time at which it appears.
    #[serde(default)]
    pub start_s: f64,
    /// Node time at which it disappears; without it never.
    pub stop_s: Option<f64>,
    /// What it does, one after another; the last phase goes on for ever.
    #[serde(rename = "phase")]
    pub phases: Vec<PhaseConfig>,
}

fn one() -> u32 {
    1
}

/// Floor above what cannot be reclaimed when none is given.
const FLOOR_MARGIN_BYTES: u64 = 1 << 20;

impl TenantConfig {
    /// The least limit that it may be given, bytes.
    #[must_use]
    pub fn floor_bytes(&self) -> u64 {
        self.floor_bytes.unwrap_or(self.anon_bytes.saturating_add(FLOOR_MARGIN_BYTES))
    }
}

/// A source of accesses and when it gives way to the next phase: after one of `seconds`,
/// `accesses` or `passes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseConfig {
    /// Node time that it lasts.
    pub seconds: Option<f64>,
    /// Accesses that it lasts.
    pub accesses: Option<u64>,
    /// Times that a trace or a loop is gone through.
    pub passes: Option<u64>,
    /// Where its accesses come from.
    pub source: SourceConfig,
}

/// Where accesses come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum SourceConfig {
    /// A recorded trace, started again when it ends.
    Trace {
        /// The file, in any format of `cachepilot_models::trace`; relative to the configuration.
        path: PathBuf,
        /// Column of a CSV file that holds the page.
        column: Option<String>,
        /// Added to every page key.
        #[serde(default)]
        offset: u64,
    },
    /// Independent draws; the page of rank k is asked for in proportion to 1 / k^alpha.
    Zipf {
        /// The exponent.
        alpha: f64,
        /// Distinct pages.
        pages: u64,
        /// The first page key.
        #[serde(default)]
        offset: u64,
    },
    /// Independent draws, every page alike.
    Uniform {
        /// Distinct pages.
        pages: u64,
        /// The first page key.
        #[serde(default)]
        offset: u64,
    },
    /// One page after another, again and again.
    Loop {
        /// Distinct pages.
        pages: u64,
        /// The first page key.
        #[serde(default)]
        offset: u64,
    },
    /// Each access from one of two sources at random.
    Mix {
        /// Share of the accesses that the first makes, 0 to 1.
        share: f64,
        /// One source.
        first: Box<SourceConfig>,
        /// The other.
        second: Box<SourceConfig>,
    },
}

impl SimulationConfig {
    /// Reads a configuration from a file of its own.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Config`] that names the file, the key and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io(path))?;
        let parsed: Self = toml::from_str(&text).map_err(|e| config_error(path, &e.to_string()))?;
        if parsed.file.is_some() {
            return Err(config_error(path, "file: only the section [simulated] may name a file"));
        }
        parsed.resolve(path)
    }

    /// What a section found in `config_path` stands for: loads `file` when it names one, takes
    /// paths of traces relative to where they are written, and checks every value.
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
    /// One line that names the key and what is allowed.
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
