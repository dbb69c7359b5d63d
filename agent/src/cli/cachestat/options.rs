// SPDX-License-Identifier: Apache-2.0
//! The options of `cachestat`.

use cachepilot_agent::cachestat::Options;
use clap::{Args, ValueEnum};
use std::time::Duration;

#[derive(Debug, Args)]
pub struct CachestatOptions {
    /// Seconds between two reports.
    #[arg(value_name = "INTERVAL", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub interval_s: u32,
    /// So many reports; without it, until Ctrl-C or SIGTERM.
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Cgroups by their path below /sys/fs/cgroup, each with all below it; *, ? and [...] match
    /// within one name. May be given more than once [default: all that have processes]
    #[arg(long = "cgroup", value_name = "GLOB")]
    pub cgroups: Vec<String>,
    /// What comes first; numbers from high to low, but the hit ratio from low to high.
    #[arg(long, value_enum, value_name = "COLUMN", default_value_t = Column::Accesses)]
    pub sort: Column,
    /// No more cgroups than this; without it all, or on a terminal as many as fit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Bytes are cold if the miss ratio rises by no more than so many percentage points without them.
    #[arg(long, value_name = "POINTS", default_value_t = 1.0, value_parser = points)]
    pub cold_points: f64,
    /// The working set is what was accessed in the last so many seconds.
    #[arg(long = "window", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub window_s: u32,
    /// The whole miss ratio curve of each cgroup.
    #[arg(long)]
    pub curve: bool,
    /// Print JSON on stdout: one object in one line for each report.
    #[arg(long)]
    pub json: bool,
}

/// By what cgroups are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Column {
    Cgroup,
    Accesses,
    Hit,
    Refaults,
    File,
    Wss,
    Cold,
}

impl CachestatOptions {
    /// What is to be watched.
    pub fn watch(&self) -> Options {
        Options {
            patterns: self.cgroups.clone(),
            window: Duration::from_secs(self.window_s.into()),
            cold_points: self.cold_points,
        }
    }
}

fn points(text: &str) -> Result<f64, String> {
    let points: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.0..=100.0).contains(&points) {
        true => Ok(points),
        false => Err("0 to 100 is allowed".into()),
    }
}
