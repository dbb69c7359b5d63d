// SPDX-License-Identifier: Apache-2.0
//! Undoes the changes on trial whose time is over when no agent runs that would do it.

use super::RETRY;
use cachepilot_agent::config::Held;
use cachepilot_agent::daemon::state::State;
use cachepilot_agent::error::Result;
use cachepilot_agent::node::factory;
use cachepilot_agent::wire;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Undoes the changes of `state` whose time is over at `wall_ms`, and nothing else. Returns the last
/// result of each, and the state after that: the next agent continues what is left, and tells the
/// controller what was undone.
pub fn undo(
    config: &Held,
    state: &State,
    wall_ms: u64,
    patience: Duration,
) -> Result<(Vec<wire::Result>, State)> {
    let mut node = factory::open_unwatched(config)?;
    let mut state = state.clone();
    state.unconfirmed = state.unconfirmed.in_boot(&node.identity().boot);
    let (began, mut tried) = (Instant::now(), Vec::<(wire::Action, Option<wire::Result>)>::new());
    loop {
        // Limits that rise are among these only once those that fall have fallen.
        let seen = node.observe()?;
        for action in state.unconfirmed.overdue(&seen.tenants, wall_ms) {
            if tried.iter().all(|(known, _)| *known != action) {
                tried.push((action, None));
            }
        }
        for (action, last) in tried.iter_mut().filter(|(_, last)| is_due(last)) {
            let result = node.apply(action);
            state.unconfirmed.tried(action, &result, wall_ms);
            *last = Some(result);
        }
        let is_done =
            !tried.iter().any(|(_, last)| is_due(last)) && !state.unconfirmed.is_overdue(wall_ms);
        if is_done || began.elapsed() > patience {
            return Ok((tried.into_iter().filter_map(|(_, last)| last).collect(), state));
        }
        sleep(RETRY);
        node.tick(RETRY)?;
    }
}

/// Whether an action has not been tried yet, or has to be tried again.
fn is_due(last: &Option<wire::Result>) -> bool {
    last.as_ref().is_none_or(wire::Result::is_left)
}
