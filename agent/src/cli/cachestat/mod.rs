// SPDX-License-Identifier: Apache-2.0
//! `cachestat`: reports at an interval, as a live table, as plain lines, or as JSON.

mod json;
pub mod options;
mod screen;
mod table;

use self::options::{CachestatOptions, Column};
use super::{Failure, stop};
use cachepilot_agent::cachestat::{CacheStat, CgroupReport, Report};
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval at which events are taken from the kernel.
const STEP: Duration = Duration::from_millis(50);

/// Reports until the requested number of reports was made, or a signal arrives.
pub fn run(options: &CachestatOptions, out: &mut impl Write) -> Result<(), Failure> {
    let mut stat = CacheStat::open(options.watch())?;
    // A live table shows this in each report.
    if options.json || !screen::is_live() {
        stat.missing().iter().for_each(|part| eprintln!("not seen: {part}"));
    }
    stop::on_signals()?;
    let interval = Duration::from_secs(options.interval_s.into());
    let mut ticked = Instant::now();
    let mut due = ticked + interval;
    let mut left = options.count;
    while left != Some(0) && !stop::is_wanted() {
        sleep(STEP.min(due.saturating_duration_since(Instant::now())));
        let now = Instant::now();
        stat.tick(now - std::mem::replace(&mut ticked, now))?;
        if now < due {
            continue;
        }
        due += interval;
        if due <= now {
            // If the process was stopped, the missed intervals become one long interval.
            due = now + interval;
        }
        show(stat.look()?, stat.missing(), options, out)?;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn show(
    mut report: Report,
    missing: &[String],
    options: &CachestatOptions,
    out: &mut impl Write,
) -> Result<(), Failure> {
    sort(&mut report.cgroups, options.sort);
    let count = report.cgroups.len();
    report.cgroups.truncate(options.top.map_or(count, |top| top as usize));
    if options.json {
        writeln!(out, "{}", json::object(&report, missing, options.curve))?;
    } else {
        let mut text = table::text(&report, count, options.curve);
        if screen::is_live() {
            text.extend(missing.iter().map(|part| format!("not seen: {part}\n")));
        }
        screen::show(&text, out)?;
    }
    Ok(out.flush()?)
}

/// Sorts cgroups by a column. Unknown values come last; equal ones stay sorted by path.
fn sort(cgroups: &mut [CgroupReport], by: Column) {
    let key = |one: &CgroupReport| -> f64 {
        let counted = one.counted.as_ref();
        let known = match by {
            Column::Cgroup => Some(0.0),
            Column::Accesses => counted.map(|c| c.per_s(c.accesses)),
            Column::Hit => counted.and_then(|c| c.hit_ratio()).map(|ratio| -ratio),
            Column::Refaults => counted.map(|c| c.per_s(c.refaults)),
            Column::File => one.cached.map(|cached| cached.file as f64),
            Column::Wss => one.working_set_bytes.map(|bytes| bytes as f64),
            Column::Cold => {
                let cold = one.predicted.as_ref().and_then(|predicted| predicted.cold);
                cold.map(|cold| cold.bytes as f64)
            }
        };
        known.unwrap_or(f64::NEG_INFINITY)
    };
    cgroups.sort_by(|a, b| key(b).total_cmp(&key(a)));
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
