// SPDX-License-Identifier: Apache-2.0
//! The policy survives its loader, whenever that is killed.

use super::{Case, Lab, Long, MIB, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Error, Result};
use crate::files::TestFile;
use crate::load::Load;
use crate::policy;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("a_pinned_policy_survives_its_loader", &[Once], pinned),
    case("an_unpinned_policy_ends_with_its_loader", &[Once], unpinned),
    case("the_agent_attaches_swaps_and_detaches", &[Once], agent),
    case("an_agent_killed_anywhere_leaves_old_or_new", &[Once, Long], killed),
];

const PIN: &str = "/sys/fs/bpf/ktests_link";

/// A loader that ends without a word; the policy is pinned or not.
fn load_and_die(cgroup: &Cgroup, file: &TestFile, pin: bool) -> Result<()> {
    let loader = child::spawn(cgroup, || {
        let mut attached = policy::attach("fifo", cgroup)?;
        if pin {
            attached.pin(PIN)?;
        }
        file.read_all()?;
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    })?;
    cgroup.wait_for("loaded", |stat| stat.get("resident_pages") >= file.pages)?;
    thread::sleep(Duration::from_millis(100));
    loader.kill()
}

fn pinned(_: &Lab) -> Outcome {
    let file = TestFile::create("pinned", 1024)?;
    let cgroup = Cgroup::create("pinned", Some(64 * MIB))?;
    load_and_die(&cgroup, &file, true)?;
    thread::sleep(Duration::from_millis(200));
    let stat = cgroup.stat()?;
    ensure!(stat.text("state") == "running", "after its loader: {stat:?}");
    ensure!(stat.get("resident_pages") >= 1024, "after its loader: {stat:?}");
    fs::remove_file(PIN).context(|| PIN.into())?;
    let stat = cgroup.wait_for_state("none")?;
    ensure!(stat.get("resident_pages") == 0, "after unpinning: {stat:?}");
    Ok("survived".into())
}

fn unpinned(_: &Lab) -> Outcome {
    let file = TestFile::create("unpinned", 1024)?;
    let cgroup = Cgroup::create("unpinned", Some(64 * MIB))?;
    load_and_die(&cgroup, &file, false)?;
    cgroup.wait_for_state("none")?;
    file.read_all()?;
    Ok("gone".into())
}

fn agent_command(lab: &Lab, cgroup: &Cgroup, arguments: &[&str]) -> Command {
    let mut command = Command::new(&lab.agent);
    command.arg("policy").args(arguments).arg("--cgroup").arg(cgroup.path());
    command.env("CACHEPILOT_BPF_DIR", &lab.policies).stdout(Stdio::null());
    command
}

/// A command of the agent about the policy of a cgroup.
///
/// # Errors
/// What it says.
pub fn run_agent(lab: &Lab, cgroup: &Cgroup, arguments: &[&str]) -> Result<()> {
    let output = agent_command(lab, cgroup, arguments).stderr(Stdio::piped()).output();
    let output = output.context(|| lab.agent.display().to_string())?;
    ensure!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

fn agent(lab: &Lab) -> Outcome {
    let file = TestFile::create("agents", 1024)?;
    let cgroup = Cgroup::create("agents", Some(64 * MIB))?;
    run_agent(lab, &cgroup, &["attach", "--policy", "fifo"])?;
    child::run(&cgroup, || file.read_all())?;
    let first = cgroup.stat()?;
    run_agent(lab, &cgroup, &["swap", "--policy", "s3fifo"])?;
    let second = cgroup.wait_for_state("running")?;
    run_agent(lab, &cgroup, &["detach"])?;
    let third = cgroup.wait_for_state("none")?;
    let policies = [first.text("policy"), second.text("policy"), third.text("policy")];
    ensure!(policies == ["fifo", "s3fifo", "none"], "{policies:?}");
    ensure!(second.get("resident_pages") >= 1024, "adopted: {second:?}");
    Ok(policies.join(" "))
}

/// Swaps until time is up, each killed a little later than the one before, up to its usual time.
fn killed(lab: &Lab) -> Outcome {
    let file = TestFile::create("killed", 4 * 8 * PAGES_PER_MIB)?;
    let cgroup = Cgroup::create("killed", Some(8 * MIB))?;
    run_agent(lab, &cgroup, &["attach", "--policy", "fifo"])?;
    let started = Instant::now();
    run_agent(lab, &cgroup, &["swap", "--policy", "lru"])?;
    let usual = started.elapsed();
    let load = Load::start(&cgroup, &file, 2)?;
    let start = Instant::now();
    let (mut rounds, mut seen) = (0_u32, [0_u32; 2]);
    while start.elapsed() < 2 * lab.time {
        let next = ["fifo", "lru"][rounds as usize % 2];
        let mut process = agent_command(lab, &cgroup, &["swap", "--policy", next])
            .stderr(Stdio::null())
            .spawn()
            .context(|| lab.agent.display().to_string())?;
        thread::sleep(usual.mul_f64(f64::from(rounds * 7 % 24) / 16.0));
        process.kill().and_then(|()| process.wait()).context(|| "the agent".into())?;
        let stat = cgroup.stat()?;
        match stat.text("policy") {
            "fifo" => seen[0] += 1,
            "lru" => seen[1] += 1,
            _ => return Err(Error::Check(format!("neither old nor new: {stat:?}"))),
        }
        ensure!(matches!(stat.text("state"), "running" | "adopting"), "{stat:?}");
        rounds += 1;
    }
    load.stop()?;
    run_agent(lab, &cgroup, &["swap", "--policy", "lfu"])?;
    run_agent(lab, &cgroup, &["detach"])?;
    let stat = cgroup.wait_for_state("none")?;
    ensure!(stat.get("resident_pages") == 0, "after detaching: {stat:?}");
    Ok(format!("killed {rounds} times: fifo {}, lru {} times in place", seen[0], seen[1]))
}
