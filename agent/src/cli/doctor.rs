// SPDX-License-Identifier: Apache-2.0
//! `doctor`: a table of what works on this host, and what to do about the rest.

use super::Failure;
use super::args::DoctorOptions;
use super::policy::print_json;
use super::tables::align;
use cachepilot_agent::Error;
use cachepilot_agent::doctor::{Check, Options, Status, examine, is_healthy, run_canary};
use cachepilot_agent::policies::folder::PolicyDir;
use serde_json::json;
use std::io::Write;
use std::path::Path;

pub fn run(options: &DoctorOptions, out: &mut impl Write) -> Result<(), Failure> {
    let policies = PolicyDir::find(options.policies.policies.as_deref());
    let checks = examine(&Options { dir: options.dir.clone(), policies });
    let healthy = is_healthy(&checks);
    if options.json {
        print_json(&json!({ "healthy": healthy, "checks": checks }), out)?;
    } else {
        out.write_all(table(&checks).as_bytes())?;
    }
    out.flush()?;
    if healthy { Ok(()) } else { Err(Failure::Told) }
}

/// Makes the accesses of the canary, in a process of its own.
pub fn canary(file: &Path) -> Result<(), Failure> {
    Ok(run_canary(file).map_err(Error::io(file))?)
}

fn table(checks: &[Check]) -> String {
    let titles = ["check", "", "what was seen", "next step"].map(String::from).to_vec();
    let row = |check: &Check| {
        let status = match check.status {
            Status::Works => "works",
            Status::Missing => "MISSING",
            Status::Without => "without",
            Status::Untried => "-",
            Status::Note => "note",
        };
        let cells = [check.name.as_str(), status, &check.detail, &check.next_step];
        cells.map(String::from).to_vec()
    };
    let rows: Vec<Vec<String>> = std::iter::once(titles).chain(checks.iter().map(row)).collect();
    align(&rows, rows[0].len())
}
