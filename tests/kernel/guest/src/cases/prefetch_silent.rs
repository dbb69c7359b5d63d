// SPDX-License-Identifier: Apache-2.0
//! Policies of readahead on files of a file system that does not answer.

use super::{Case, Lab, MIB, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::Cgroup;
use crate::child;
use crate::ensure;
use crate::error::{Context, Result};
use crate::files::read_page;
use crate::silent_fs::SilentFs;
use crate::windowing::{Window, attach, tell, tell_queue};
use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[case(
    "a_readahead_policy_is_detached_while_a_file_system_does_not_answer",
    &[Once],
    detached_while_silent,
)];

const PAGES: u64 = PAGES_PER_MIB;
const PATIENCE: Duration = Duration::from_secs(15);
const SOON: Duration = Duration::from_secs(5);

fn wait_for_opens(files: &SilentFs, opens: u64) -> Result<()> {
    let start = Instant::now();
    while files.opened() < opens {
        ensure!(start.elapsed() < SOON, "opened {} times", files.opened());
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The worker opens the file for itself and waits for an answer that does not come.
fn detached_while_silent(_: &Lab) -> Outcome {
    let files = SilentFs::mount("silent", PAGES, PATIENCE)?;
    let cgroup = Cgroup::create("silent", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    tell(&attached, Window::default())?;
    // Two more wait behind it.
    tell_queue(&attached, 100, 64, 3)?;
    child::run(&cgroup, || {
        read_page(&File::open(files.file()).context(|| "the file".into())?, 10)
    })?;
    wait_for_opens(&files, 2)?;
    let start = Instant::now();
    drop(attached);
    let took = start.elapsed();
    ensure!(took < SOON, "detaching waited for the file system, {took:?}");
    let stat = cgroup.stat()?;
    ensure!(stat.text("prefetch_policy") == "none", "it is still there: {stat:?}");
    // The same work does not stand in the way of the next policy.
    let next = attach(&cgroup)?;
    tell(&next, Window::default())?;
    drop(next);
    ensure!(files.opened() == 2, "a request was served after it was dropped");
    files.unmount()?;
    Ok(format!("after {took:?}"))
}
