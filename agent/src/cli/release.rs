// SPDX-License-Identifier: Apache-2.0
//! `release`: undoes the changes of an agent that no longer runs.

mod overdue;

use super::args::ReleaseOptions;
use super::policy::print_json;
use super::{Failure, colours, tables};
use cachepilot_agent::config::Held;
use cachepilot_agent::daemon::clock::{Clock, SystemClock};
use cachepilot_agent::daemon::state::{State, Store};
use cachepilot_agent::error::{Error, Result};
use cachepilot_agent::node::factory;
use cachepilot_agent::wire;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for a limit for which the kernel is still reclaiming.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest wait if a service manager waits for the end of the agent.
const SHORT_PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(200);

/// Restores every tenant, and prints the result for each.
pub fn run(options: &ReleaseOptions, out: &mut impl Write) -> std::result::Result<(), Failure> {
    let config = Held::load(&options.config.file)?;
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    log.with_writer(io::stderr)
        .with_ansi(colours::of_stderr())
        .with_target(false)
        .without_time()
        .init();
    if !config.state_dir.is_dir() {
        let message = format!("state_dir = {:?}: no such directory", config.state_dir);
        return Err(Error::Config { path: config.path, message }.into());
    }
    let (store, state) = Store::open(&config.state_dir)?;
    let wall_ms = SystemClock.wall().as_millis() as u64;
    let (results, left) = if !options.if_lease_ended {
        release(&config, &state, PATIENCE)?
    } else if has_ended(&state, wall_ms) || factory::is_record_lost(&config)? {
        release(&config, &state, SHORT_PATIENCE)?
    } else if state.unconfirmed.is_overdue(wall_ms) {
        overdue::undo(&config, &state, wall_ms, SHORT_PATIENCE)?
    } else {
        return Ok(());
    };
    if left != state
        && let Err(error) = store.write(&left)
    {
        // The next agent does this again, which changes nothing.
        tracing::warn!(%error, "the release is not on disk");
    }
    if options.json {
        print_json(&results.iter().map(wire::Result::to_json).collect::<Vec<_>>(), out)?;
    } else {
        out.write_all(table(&results).as_bytes())?;
    }
    if results.iter().any(wire::Result::is_left) { Err(Failure::Told) } else { Ok(()) }
}

fn has_ended(state: &State, wall_ms: u64) -> bool {
    state.lease.is_some_and(|lease| lease.left_ms(wall_ms) == 0)
}

/// Restores every tenant that was changed. Returns the results, sorted by cgroup, and the state
/// after that.
fn release(config: &Held, state: &State, patience: Duration) -> Result<(Vec<wire::Result>, State)> {
    let mut node = factory::open_unwatched(config)?;
    let (began, mut results) = (Instant::now(), BTreeMap::new());
    loop {
        // Tenants that are restored are not in the results of the next call.
        let left = node.release();
        let is_done = !left.iter().any(wire::Result::is_left);
        results.extend(left.into_iter().map(|result| (result.cgroup.clone(), result)));
        if is_done || began.elapsed() > patience {
            break;
        }
        sleep(RETRY);
        node.tick(RETRY)?;
    }
    let results: Vec<wire::Result> = results.into_values().collect();
    let is_done = !results.iter().any(wire::Result::is_left);
    Ok((results, if is_done { state.clone().released() } else { state.clone() }))
}

fn table(results: &[wire::Result]) -> String {
    if results.is_empty() {
        return "no tenant was changed\n".into();
    }
    let head = ["cgroup", "outcome", "policy", "limit", "reason"].map(String::from).to_vec();
    let row = |result: &wire::Result| {
        let limit = match result.limit_bytes {
            0 => "none".into(),
            bytes => bytes.to_string(),
        };
        let outcome = result.outcome().as_str_name().to_lowercase();
        vec![result.cgroup.clone(), outcome, result.policy.clone(), limit, result.reason.clone()]
    };
    let rows: Vec<_> = std::iter::once(head).chain(results.iter().map(row)).collect();
    tables::align(&rows, 5)
}
