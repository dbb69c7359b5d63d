// SPDX-License-Identifier: Apache-2.0
//! `run`, `check-config` and `metrics`.

use super::args::LogLevel;
use super::{Failure, colours};
use cachepilot_agent::config::Config;
use cachepilot_agent::daemon::clock::SystemClock;
use cachepilot_agent::daemon::signals::on_signals;
use cachepilot_agent::daemon::{self, Parts};
use cachepilot_agent::error::Error;
use cachepilot_agent::exporter::{Shared, example};
use cachepilot_agent::node::factory;
use cachepilot_agent::session::dial::Dialer;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::runtime;

type Outcome = Result<(), Failure>;

/// Runs the agent until SIGTERM or SIGINT. Policies and limits stay as they are.
pub fn run(path: &Path, level: LogLevel) -> Outcome {
    let config = Config::load(path)?;
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::from(level))
        .with_writer(io::stderr)
        .with_ansi(colours::of_stderr())
        .with_target(false)
        .init();
    if let Some(unread) = config.unread_tls() {
        tracing::warn!("{unread}: no connection to the controller until it is there");
    }
    // The agent waits most of the time, so one thread is enough for it, beside that of the node.
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::kernel("the runtime"))?;
    let opened = config.clone();
    let result = runtime.block_on(async {
        let parts = Parts {
            node: Box::new(move || factory::open(&opened)),
            dial: Dialer::new(&config),
            clock: Arc::new(SystemClock),
            random: Box::new(fastrand::f64),
            stop: on_signals()?,
            shared: Arc::new(Shared::of(&config.node)),
        };
        daemon::run(&config, parts).await
    });
    // A write to a disk that hangs must not keep the agent from ending.
    runtime.shutdown_background();
    Ok(result?)
}

/// Checks a configuration and prints it with its defaults.
pub fn check_config(path: &Path, json: bool, out: &mut impl Write) -> Outcome {
    let config = Config::load(path)?;
    factory::check(&config)?;
    if let Some(unread) = config.unread_tls() {
        // This is not an error: an agent without these files still runs, and restores tenants when
        // that is due.
        eprintln!("warning: {unread}");
    }
    if let Err(error) = factory::check_hierarchy(&config) {
        // The configuration may be for another machine.
        eprintln!("warning: {error}");
    }
    let shown = config.shown();
    if json {
        serde_json::to_writer_pretty(&mut *out, &shown).map_err(io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    let keys = shown.as_object().into_iter().flatten();
    for (key, value) in keys.filter(|(_, value)| !value.is_null()) {
        match value {
            Value::String(text) => writeln!(out, "{key:<20} {text}")?,
            other => writeln!(out, "{key:<20} {other}")?,
        }
    }
    Ok(())
}

/// Prints an example of the page for Prometheus.
pub fn metrics(out: &mut impl Write) -> Outcome {
    let text = example().map_err(io::Error::other)?;
    Ok(write!(out, "{text}")?)
}
