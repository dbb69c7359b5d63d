// SPDX-License-Identifier: Apache-2.0
//! Tests of the patched kernel, run as root inside a virtual machine: one line of JSON per case.

mod cases;
mod cgroup;
mod child;
mod counts;
mod credentials;
mod error;
mod files;
mod hostile;
mod kernel_log;
mod load;
mod mapping;
mod messages;
mod parameter;
mod policy;
mod silent_fs;
mod trimming;
mod windowing;

use cases::{Case, Lab, Set};
use clap::Parser;
use error::{Result, checked, write_text};
use kernel_log::KernelLog;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Tests of the patched kernel.
#[derive(Debug, Parser)]
struct Arguments {
    /// Print the cases of each set and run nothing.
    #[arg(long)]
    list: bool,
    /// Sets to run, one after the other.
    #[arg(long = "set", value_name = "SET")]
    sets: Vec<Set>,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How long cases that take a time of choice run, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u64,
    /// Most that a miss ratio may change by while policies are swapped. A kernel that checks
    /// everything takes longer to hand folios over than there is between two swaps.
    #[arg(long, value_name = "RATIO", default_value_t = 0.03)]
    tolerance: f64,
    /// Folder of the compiled policies of bpf/policies.
    #[arg(long, value_name = "DIR", default_value = "build/bpf")]
    policies: PathBuf,
    /// The loader.
    #[arg(long, value_name = "FILE", default_value = "target/release/cachepilot-agent")]
    agent: PathBuf,
}

#[derive(Serialize)]
struct Report<'a> {
    set: String,
    case: &'a str,
    ok: bool,
    seconds: f64,
    detail: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        return print(&listing());
    }
    policy::set_shipped_dir(arguments.policies.clone());
    let lab = Lab {
        time: Duration::from_secs(arguments.seconds),
        tolerance: arguments.tolerance,
        agent: arguments.agent.clone(),
        policies: arguments.policies.clone(),
    };
    for &set in &arguments.sets {
        if let Err(error) = stay_resident().and_then(|()| prepare(set)) {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
        for case in cases::of(set).filter(|case| case.name.contains(&arguments.only)) {
            print(&report(&lab, set, case));
        }
    }
    ExitCode::SUCCESS
}

#[derive(Serialize)]
struct Listed {
    set: String,
    case: &'static str,
}

fn listing() -> Vec<Listed> {
    let listed = |&set: &Set| {
        cases::of(set).map(move |case| Listed { set: set.to_string(), case: case.name })
    };
    Set::ALL.iter().flat_map(listed).collect()
}

fn print(value: &impl Serialize) -> ExitCode {
    match serde_json::to_string(value) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads this program as a whole, so that no page of it is charged to a cgroup of a case.
fn stay_resident() -> Result<()> {
    // SAFETY: takes a number only.
    checked(unsafe { libc::mlockall(libc::MCL_CURRENT) }, "mlockall")?;
    Ok(())
}

/// Which of the kernel's two LRUs serves the set.
fn prepare(set: Set) -> Result<()> {
    let enabled = if set.uses_mglru() { "y" } else { "n" };
    write_text("/sys/kernel/mm/lru_gen/enabled", enabled)
}

fn report<'a>(lab: &Lab, set: Set, case: &'a Case) -> Report<'a> {
    let start = Instant::now();
    let outcome = run(lab, case);
    Report {
        set: set.to_string(),
        case: case.name,
        ok: outcome.is_ok(),
        seconds: start.elapsed().as_secs_f64(),
        detail: match outcome {
            Ok(detail) => detail,
            Err(error) => error.to_string(),
        },
    }
}

/// A case passes when it says so and leaves no trouble in the kernel's log.
fn run(lab: &Lab, case: &Case) -> Result<String> {
    let mut log = KernelLog::end()?;
    let outcome = (case.run)(lab);
    let trouble = log.trouble();
    ensure!(trouble.is_empty(), "the kernel's log says: {}", trouble.join("\n"));
    outcome
}
