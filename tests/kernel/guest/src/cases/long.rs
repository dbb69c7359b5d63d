// SPDX-License-Identifier: Apache-2.0
//! What takes minutes.

use super::limits::check_served;
use super::{Case, Lab, Long, MIB, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result};
use crate::files::{SCRATCH, TestFile};
use crate::policy;
use std::process::{Command, Stdio};
use std::time::Instant;

pub const CASES: &[Case] = &[
    case("fio_of_zipf_reads_over_five_times_the_cgroup", &[Long], fio),
    case("a_mix_of_everything", &[Long], mix),
];

const FIO_LIMIT_MIB: u64 = 32;

fn fio_command(path: &str, seconds: u64) -> Command {
    let mut command = Command::new("fio");
    command.args(["--name=zipf", "--rw=randread", "--bs=4k", "--random_distribution=zipf:0.99"]);
    command.args(["--ioengine=psync", "--numjobs=4", "--thread", "--group_reporting"]);
    command.args(["--time_based", "--invalidate=0", "--output-format=terse", "--minimal"]);
    command.arg(format!("--filename={path}")).arg(format!("--runtime={seconds}"));
    command.arg(format!("--size={}M", 5 * FIO_LIMIT_MIB)).current_dir(SCRATCH);
    command
}

/// Four threads and `lfu`, for as long as told.
fn fio(lab: &Lab) -> Outcome {
    let file = TestFile::create("fio", 5 * FIO_LIMIT_MIB * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("fio", Some(FIO_LIMIT_MIB * MIB))?;
    let _attached = policy::attach("lfu", &cgroup)?;
    let seconds = lab.time.as_secs();
    let path = file.path.display().to_string();
    let start = Instant::now();
    child::run(&cgroup, || {
        let output = fio_command(&path, seconds).stdin(Stdio::null()).output();
        let output = output.context(|| "fio".into())?;
        ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    })?;
    let took = start.elapsed();
    ensure!(took.as_secs() < seconds + 60, "fio took {took:?} for {seconds} s");
    let stat = cgroup.stat()?;
    ensure!(stat.get("added") > file.pages, "{} misses only", stat.get("added"));
    check_served(&stat)
}

/// Every case that is not for a machine of its own, over and over, in turn.
fn mix(lab: &Lab) -> Outcome {
    let start = Instant::now();
    let short = Lab {
        time: std::time::Duration::from_secs(2),
        tolerance: lab.tolerance,
        agent: lab.agent.clone(),
        policies: lab.policies.clone(),
    };
    let (mut passed, mut failed) = (0, Vec::new());
    'rounds: loop {
        for case in super::of(super::Set::Ext4) {
            if start.elapsed() > lab.time {
                break 'rounds;
            }
            match run(case, &short) {
                Ok(_) => passed += 1,
                Err(error) => failed.push(format!("{}: {error}", case.name)),
            }
        }
    }
    ensure!(failed.is_empty(), "{passed} passed, {} failed: {}", failed.len(), failed.join("; "));
    Ok(format!("{passed} cases passed"))
}

fn run(case: &Case, lab: &Lab) -> Result<String> {
    (case.run)(lab).map_err(|error| Error::Check(error.to_string()))
}
