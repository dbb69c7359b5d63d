// SPDX-License-Identifier: Apache-2.0
//! `record ...`: writes the accesses of a cgroup to a file until the time is up or a signal
//! arrives.

use super::args::{CountingOption, RecordOptions};
use super::policy::print_json;
use super::{Failure, stop};
use cachepilot_agent::record::{Counting, Recorded, Recorder, create};
use serde_json::json;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval at which events are taken from the kernel.
const STEP: Duration = Duration::from_millis(20);

pub fn run(options: &RecordOptions, out: &mut impl Write) -> Result<(), Failure> {
    let mut writer = create(&options.out)?;
    let counting = match options.counting {
        CountingOption::Programs => Counting::Programs,
        CountingOption::Kernel => Counting::Kernel,
    };
    let RecordOptions { rate, ring_mib, .. } = *options;
    let mut recorder = Recorder::start(&options.cgroup.dir, counting, rate, ring_mib)?;
    stop::on_signals()?;
    eprintln!("recording {}", options.cgroup.dir.display());
    let began = Instant::now();
    let seconds = options.seconds.map(|s| Duration::from_secs(s.into()));
    while !stop::is_wanted() && seconds.is_none_or(|s| began.elapsed() < s) {
        recorder.step(&mut writer)?;
        sleep(STEP);
    }
    tell(&recorder.finish(writer)?, options, out)
}

fn tell(recorded: &Recorded, options: &RecordOptions, out: &mut impl Write) -> Result<(), Failure> {
    let Recorded { records, counts, elsewhere, removals, losses, missing } = recorded;
    if options.json {
        let used = counts.latency.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
        return print_json(
            &json!({
                "records": records,
                "accesses": counts.accesses,
                "misses": counts.misses,
                "refaults": counts.refaults,
                "evictions": counts.evictions,
                "readahead_pages": counts.readahead_pages,
                "mmap_accesses": counts.mmap_accesses,
                "write_accesses": counts.write_accesses,
                "read_calls": counts.read_calls,
                "read_time_ns": counts.read_time_ns,
                "read_latency": counts.latency[..used],
                "elsewhere": elsewhere,
                "removals": removals,
                "dropped_events": losses.dropped_events,
                "unsampled_pages": losses.unsampled_pages,
                "untracked_calls": losses.untracked_calls,
                "missing": missing,
            }),
            out,
        );
    }
    writeln!(out, "{}: {records} of {} accesses", options.out.display(), counts.accesses)?;
    let lost = losses.dropped_events + losses.unsampled_pages;
    if lost > 0 {
        eprintln!(
            "{lost} accesses were lost: the trace is not complete; a larger --ring-mib helps"
        );
    }
    for part in missing {
        eprintln!("not seen: {part}");
    }
    Ok(())
}
