// SPDX-License-Identifier: Apache-2.0
//! The configuration of the agent: one TOML file, of which `configs/agent.toml` is an example.

mod checks;
mod raw;

use crate::error::{Error, Result};
use raw::{Raw, RawHeld};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which kind of node is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `cache_ext` where the kernel has it, else `stock`.
    Auto,
    /// A kernel with cache_ext: policies, limits, curves.
    CacheExt,
    /// Any other kernel: limits and curves.
    Stock,
    /// Simulated tenants.
    Simulated,
}

/// Files that make a connection mutually authenticated, PEM each. They are read again for every
/// connection, so that renewed ones are picked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Authorities that may vouch for the controller.
    pub ca: PathBuf,
    /// What this agent shows.
    pub certificate: PathBuf,
    /// The private key of `certificate`.
    pub key: PathBuf,
}

/// What holds for this agent; everything in it was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where it was read from; errors of the sections of others name it.
    pub path: PathBuf,
    /// Unique in the fleet.
    pub node: String,
    /// URL of the controller, `http` or `https`.
    pub controller: String,
    /// Present exactly when `controller` is `https`.
    pub tls: Option<Tls>,
    /// Kind of node.
    pub kind: Kind,
    /// What must outlive the agent is kept here.
    pub state_dir: PathBuf,
    /// Where `/metrics` and `/healthz` are served; `None` for nowhere.
    pub metrics: Option<SocketAddr>,
    /// Bounds in time.
    pub times: Times,
    /// `[curves]`, not looked into.
    pub curves: Option<toml::Table>,
    /// `[kernel]`, not looked into.
    pub kernel: Option<toml::Table>,
    /// `[simulated]`, not looked into.
    pub simulated: Option<toml::Table>,
}

/// What of a configuration says where something may be held. To give it back nothing else is
/// looked at: a mistake elsewhere keeps nothing held.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// Where it was read from.
    pub path: PathBuf,
    /// Kind of node.
    pub kind: Kind,
    /// Where it is noted what is held.
    pub state_dir: PathBuf,
    /// `[kernel]`, not looked into.
    pub kernel: Option<toml::Table>,
}

impl Held {
    /// Reads it from a file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load(path: &Path) -> Result<Self> {
        let fail = |message| Error::Config { path: path.into(), message };
        let text = fs::read_to_string(path).map_err(|error| fail(format!("{error}")))?;
        let raw = toml::from_str(&text).map_err(|e| fail(raw::explain(&e, &text)))?;
        let RawHeld { kind, state_dir, kernel } = raw;
        checks::state_dir(&state_dir).map_err(fail)?;
        Ok(Self { path: path.into(), kind, state_dir, kernel })
    }
}

/// How long things may take, and how often they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Between two ticks of a node in real time.
    pub tick: Duration,
    /// Until a connection stands.
    pub connect: Duration,
    /// Until a message is on its way.
    pub send: Duration,
    /// Until a snapshot is answered by a plan.
    pub plan: Duration,
    /// Until one action is done.
    pub apply: Duration,
    /// Until a node that does not answer ends the agent.
    pub stuck: Duration,
    /// The longest pause between two attempts to connect.
    pub reconnect_max: Duration,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`Error::Config`], one line with the key, its value and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        let fail = |error| Error::Config { path: path.into(), message: format!("{error}") };
        Self::parse(path, &fs::read_to_string(path).map_err(fail)?)
    }

    /// Checks the text of a file; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let fail = |message| Error::Config { path: path.into(), message };
        let raw: Raw = toml::from_str(text).map_err(|e| fail(raw::explain(&e, text)))?;
        checks::check(path, raw).map_err(fail)
    }

    /// The first file of `[tls]` that cannot be read, and why. Each connection reads them again, so that
    /// what is missing now may come.
    #[must_use]
    pub fn unread_tls(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let files = [("ca", &tls.ca), ("certificate", &tls.certificate), ("key", &tls.key)];
        files.into_iter().find_map(|(key, file)| {
            let error = fs::File::open(file).err()?;
            Some(format!("tls.{key} = {file:?}: {error}"))
        })
    }

    /// What holds, with the defaults filled in, by key and in the order of the example.
    #[must_use]
    pub fn shown(&self) -> serde_json::Value {
        let ms = |time: Duration| time.as_millis() as u64;
        let times = &self.times;
        serde_json::json!({
            "node": self.node,
            "controller": self.controller,
            "tls": self.tls,
            "kind": self.kind,
            "state_dir": self.state_dir,
            "metrics": self.metrics.map(|address| address.to_string()).unwrap_or_default(),
            "tick_ms": ms(times.tick),
            "connect_timeout_ms": ms(times.connect),
            "send_timeout_ms": ms(times.send),
            "plan_timeout_ms": ms(times.plan),
            "apply_timeout_ms": ms(times.apply),
            "stuck_timeout_ms": ms(times.stuck),
            "reconnect_max_ms": ms(times.reconnect_max),
            "curves": self.curves,
            "kernel": self.kernel,
            "simulated": self.simulated,
        })
    }
}

#[cfg(test)]
mod tests;
