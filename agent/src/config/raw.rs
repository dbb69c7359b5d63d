// SPDX-License-Identifier: Apache-2.0
//! The file as written, with its defaults, before the checks.

use super::{Kind, Tls};
use serde::Deserialize;
use std::path::PathBuf;

/// All keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    pub node: Option<String>,
    pub controller: String,
    pub insecure: bool,
    pub tls: Option<Tls>,
    pub kind: Kind,
    pub state_dir: PathBuf,
    pub metrics: String,
    pub metrics_public: bool,
    pub tick_ms: u64,
    pub connect_timeout_ms: u64,
    pub send_timeout_ms: u64,
    pub plan_timeout_ms: u64,
    pub apply_timeout_ms: u64,
    pub stuck_timeout_ms: u64,
    pub reconnect_max_ms: u64,
    pub curves: Option<toml::Table>,
    pub kernel: Option<toml::Table>,
    pub simulated: Option<toml::Table>,
}

/// The keys of [`super::Held`]; all others are ignored.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub struct RawHeld {
    pub kind: Kind,
    pub state_dir: PathBuf,
    pub kernel: Option<toml::Table>,
}

impl Default for RawHeld {
    fn default() -> Self {
        let Raw { kind, state_dir, kernel, .. } = Raw::default();
        Self { kind, state_dir, kernel }
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            node: None,
            controller: "http://127.0.0.1:7070".into(),
            insecure: false,
            tls: None,
            kind: Kind::Auto,
            state_dir: "/var/lib/cachepilot/agent".into(),
            metrics: "127.0.0.1:9435".into(),
            metrics_public: false,
            tick_ms: 50,
            connect_timeout_ms: 5_000,
            send_timeout_ms: 5_000,
            plan_timeout_ms: 10_000,
            apply_timeout_ms: 2_000,
            stuck_timeout_ms: 60_000,
            reconnect_max_ms: 10_000,
            curves: None,
            kernel: None,
            simulated: None,
        }
    }
}

/// An error of the parser in one line, with the line of the file that contains the key and the
/// value.
pub fn explain(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(span) = error.span() else { return message };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or_default().trim();
    format!("line {}: {line:?}: {message}", number + 1)
}
