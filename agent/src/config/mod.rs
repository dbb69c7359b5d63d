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

/// Kind of node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `cache_ext` if the kernel has it, otherwise `stock`.
    Auto,
    /// A kernel with cache_ext: policies, limits, curves.
    CacheExt,
    /// Any other kernel: limits and curves.
    Stock,
    /// Simulated tenants.
    Simulated,
}

/// Files for mutual authentication of a connection, in PEM. They are read again for every
/// connection, so that renewed ones are used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Authorities that may sign the controller's certificate.
    pub ca: PathBuf,
    /// The certificate of this agent.
    pub certificate: PathBuf,
    /// The private key of `certificate`.
    pub key: PathBuf,
}

/// The configuration of this agent. All values have been checked, except the sections for other
/// modules.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file it was read from, which errors in those sections name.
    pub path: PathBuf,
    /// Name of the node, unique in the fleet.
    pub node: String,
    /// URL of the controller, `http` or `https`.
    pub controller: String,
    /// Present exactly if `controller` is `https`.
    pub tls: Option<Tls>,
    /// Kind of node.
    pub kind: Kind,
    /// Directory of the state that must outlive the agent.
    pub state_dir: PathBuf,
    /// Address at which `/metrics` and `/healthz` are served; `None` means not at all.
    pub metrics: Option<SocketAddr>,
    /// Time-outs and intervals.
    pub times: Times,
    /// `[curves]`, not yet checked.
    pub curves: Option<toml::Table>,
    /// `[kernel]`, not yet checked.
    pub kernel: Option<toml::Table>,
    /// `[simulated]`, not yet checked.
    pub simulated: Option<toml::Table>,
}

/// The part of a configuration that says where tenants may still have an agent's policies and
/// limits. Nothing else is read in order to restore them: a mistake elsewhere in the file must not
/// prevent that.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The file it was read from.
    pub path: PathBuf,
    /// Kind of node.
    pub kind: Kind,
    /// Directory of the ledger, which lists what must be restored.
    pub state_dir: PathBuf,
    /// `[kernel]`, not yet checked.
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

/// Time-outs and intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Between two ticks of a node in real time.
    pub tick: Duration,
    /// Time-out for a connection to be established.
    pub connect: Duration,
    /// Time-out for sending a message.
    pub send: Duration,
    /// Time-out for a plan that answers a snapshot.
    pub plan: Duration,
    /// Time-out for one action.
    pub apply: Duration,
    /// Time after which a node that does not answer ends the agent.
    pub stuck: Duration,
    /// The longest pause between two attempts to connect.
    pub reconnect_max: Duration,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Returns [`Error::Config`], one line with the key, its value and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        let fail = |error| Error::Config { path: path.into(), message: format!("{error}") };
        Self::parse(path, &fs::read_to_string(path).map_err(fail)?)
    }

    /// Parses and checks the text of a file; errors name `path`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let fail = |message| Error::Config { path: path.into(), message };
        let raw: Raw = toml::from_str(text).map_err(|e| fail(raw::explain(&e, text)))?;
        checks::check(path, raw).map_err(fail)
    }

    /// The first file of `[tls]` that cannot be read, and the reason. Each connection reads the
    /// files again, so a missing one may still be added.
    #[must_use]
    pub fn unread_tls(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let files = [("ca", &tls.ca), ("certificate", &tls.certificate), ("key", &tls.key)];
        files.into_iter().find_map(|(key, file)| {
            let error = fs::File::open(file).err()?;
            Some(format!("tls.{key} = {file:?}: {error}"))
        })
    }

    /// The configuration with its defaults, by key and in the order of the example.
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
