// SPDX-License-Identifier: Apache-2.0
//! Requests that meet others: two at the same time, and those of a reclaim that is not the
//! cgroup's own.

use super::{Case, Ext4, Lab, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::ensure;
use crate::error::{Error, Result, write_text};
use crate::files::TestFile;
use crate::hostile::{self, Handle, Mode};
use crate::parameter::{Parameter, WATCHDOG_MS};
use crate::policy::Attached;
use std::cell::Cell;
use std::time::Duration;

pub const CASES: &[Case] = &[
    case("what_one_request_shows_another_leaves_alone", &[Ext4], shown_elsewhere),
    case("a_policy_that_slows_the_reclaim_of_others_is_ejected", &[Once], slow_for_others),
];

const ASKED: u64 = 32;
const ATTEMPTS: u32 = 8;

/// One request looks at the oldest pages for long; another comes meanwhile, and is to take the
/// next. Whether it did: it may be late.
fn meet() -> Result<bool> {
    let file = TestFile::create("shown", 2 * ASKED)?;
    let cgroup = Cgroup::create("shown", None)?;
    let (attached, handle) = hostile::attach(&cgroup)?;
    let holding = hostile::hold_in(Mode::Shown, &cgroup, &file, handle)?;
    Handle::of(attached.policy())?.set_mode(Mode::Honest);
    cgroup.write("memory.reclaim", "128K")?;
    let meanwhile = cgroup.stat()?;
    let next = file.cached_pages()?;
    // Those that it held are there still, unless they were taken from it.
    let met = holding.end()?.succeeded == 4;
    ensure!(
        meanwhile.get("rejected_busy") == 0 && next <= ASKED,
        "what was shown was in the way, {next} pages are left: {meanwhile:?}"
    );
    let left = file.cached_pages()?;
    ensure!(left <= ASKED / 8, "{left} of the oldest pages are left: {:?}", cgroup.stat()?);
    Ok(met)
}

fn shown_elsewhere(_: &Lab) -> Outcome {
    for attempt in 1..=ATTEMPTS {
        if meet()? {
            return Ok(format!("attempt {attempt}"));
        }
    }
    Err(Error::Check(format!("the requests did not meet, {ATTEMPTS} times")))
}

const SPIN: Duration = Duration::from_millis(40);
/// More than a request takes, and not ten times as long if the host takes the processor away.
const MOST_MS: &str = "100";

/// A cgroup of that name whose policy takes its time for each request, below one without a policy.
struct Slow {
    parent: Cgroup,
    cgroup: Cgroup,
    _attached: Attached,
    file: TestFile,
    read: Cell<u64>,
    _watchdog: Parameter,
}

impl Slow {
    fn create(name: &str) -> Result<Self> {
        let watchdog = Parameter::set(WATCHDOG_MS, MOST_MS)?;
        let file = TestFile::sparse(name, 512 * PAGES_PER_MIB)?;
        let parent = Cgroup::create(name, None)?;
        let cgroup = parent.child("slow", None)?;
        let (attached, handle) = hostile::attach(&cgroup)?;
        handle.set_spin_ns(u64::try_from(SPIN.as_nanos()).unwrap_or(u64::MAX));
        handle.set_mode(Mode::Slow);
        let read = Cell::new(0);
        let slow = Self { parent, cgroup, _attached: attached, file, read, _watchdog: watchdog };
        slow.read_on(32 * PAGES_PER_MIB)?;
        Ok(slow)
    }

    fn read_on(&self, pages: u64) -> Result<()> {
        let from = self.read.replace(self.read.get() + pages);
        child::run(&self.cgroup, || self.file.skim(from..from + pages))
    }

    /// Has the cgroup above reclaim, which may find less. A policy that was late once, as the host
    /// took the processor away, is asked again after new pages came.
    fn reclaim(&self) -> Result<Stat> {
        self.read_on(64)?;
        let _ = self.parent.write("memory.reclaim", "128K");
        self.cgroup.stat()
    }
}

/// Has the cgroup above reclaim until the policy is left alone or ejected.
fn overdraw(slow: &Slow) -> Result<Stat> {
    const MOST_TIMES: u32 = 1000;
    let before = slow.cgroup.stat()?.get("overdrawn_requests");
    for _ in 0..MOST_TIMES {
        let stat = slow.reclaim()?;
        if stat.get("overdrawn_requests") > before || stat.text("state") != "running" {
            return Ok(stat);
        }
    }
    Err(Error::Check(format!("it is asked on and on: {:?}", slow.cgroup.stat()?)))
}

/// Each request is in time, but there is no end of them.
fn slow_for_others(_: &Lab) -> Outcome {
    /// What it may owe is 40 requests; a part is paid meanwhile.
    const MOST_REQUESTS: u64 = 80;
    let slow = Slow::create("for-others")?;
    let first = overdraw(&slow)?;
    ensure!(first.text("state") == "running", "it is ejected at once: {first:?}");
    ensure!(first.get("requests") < MOST_REQUESTS, "it was asked too often: {first:?}");
    let mut stat = first;
    for _ in 1..4 {
        // In place of a wait until half is paid: ten times as much may be owed for a moment.
        write_text(WATCHDOG_MS, "1000")?;
        slow.reclaim()?;
        write_text(WATCHDOG_MS, MOST_MS)?;
        stat = overdraw(&slow)?;
    }
    let (state, reason) = (stat.text("state"), stat.text("reason"));
    ensure!(state == "ejected" && reason.contains("others"), "{state} ({reason}): {stat:?}");
    Ok(format!("{} requests: {reason}", stat.get("requests")))
}
