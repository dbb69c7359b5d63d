// SPDX-License-Identifier: Apache-2.0
//! Requests that meet others: two at the same time, and those of a reclaim that is not the
//! cgroup's own.

use super::{Case, Ext4, Lab, Once, Outcome, PAGES_PER_MIB, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::ensure;
use crate::error::{Error, Result, checked, write_text};
use crate::files::TestFile;
use crate::hostile::{self, Handle, Mode};
use crate::parameter::{Parameter, WATCHDOG_MS};
use crate::policy::{self, Attached};
use std::cell::Cell;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("what_one_request_shows_another_leaves_alone", &[Ext4], shown_elsewhere),
    case("a_policy_that_slows_the_reclaim_of_others_is_ejected", &[Once], slow_for_others),
    case("a_policy_that_owes_others_serves_its_own_cgroup", &[Once], own_reclaim),
    case("what_a_policy_takes_of_the_reclaim_of_others_is_bounded", &[Once], bounded),
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
/// Of all requests for others, beyond what is in proportion to the pages: 16 times `MOST_MS`.
const MOST_OWED: Duration = Duration::from_millis(16 * 100);

/// A cgroup of that name whose policy takes its time for each request, below one without a policy.
struct Slow {
    parent: Cgroup,
    cgroup: Cgroup,
    attached: Attached,
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
        let slow = Self { parent, cgroup, attached, file, read, _watchdog: watchdog };
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

    /// Has the cgroup itself reclaim 1 MiB. Returns what was counted before and after. It is done
    /// again if a request was cut short, as the host took the processor away.
    fn reclaim_own(&self) -> Result<(Stat, Stat)> {
        const MOST_TIMES: u32 = 4;
        let mut found = (self.cgroup.stat()?, self.cgroup.stat()?);
        for _ in 0..MOST_TIMES {
            let before = self.cgroup.stat()?;
            self.cgroup.write("memory.reclaim", "1M")?;
            found = (before, self.cgroup.stat()?);
            if found.0.get("time_limited") == found.1.get("time_limited") {
                break;
            }
            self.read_on(64)?;
        }
        Ok(found)
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

/// Pages that its policy gave between two moments, and how often it was not asked for others.
fn gave(before: &Stat, after: &Stat) -> (u64, u64) {
    let grown = |key| after.get(key) - before.get(key);
    (grown("reclaimed_pages"), grown("overdrawn_requests"))
}

/// The policy is asked for its own cgroup as ever while others do without it, and both get pages.
fn own_reclaim(_: &Lab) -> Outcome {
    let slow = Slow::create("owing")?;
    let owing = overdraw(&slow)?;
    ensure!(owing.text("state") == "running", "it is ejected at once: {owing:?}");
    let (before, asked) = slow.reclaim_own()?;
    let own = gave(&before, &asked);
    ensure!(own.0 >= PAGES_PER_MIB * 7 / 8 && own.1 == 0, "its own: {own:?}, {asked:?}");

    let current = slow.cgroup.read("memory.current")?;
    slow.cgroup.write("memory.max", current.trim())?;
    slow.read_on(PAGES_PER_MIB)?;
    let full = slow.cgroup.stat()?;
    let limited = gave(&asked, &full);
    ensure!(limited.0 >= PAGES_PER_MIB / 2 && limited.1 == 0, "its limit: {limited:?}, {full:?}");
    ensure!(slow.cgroup.figure("memory.events", "oom")? == 0, "out of memory");

    let cached = slow.file.cached_pages()?;
    slow.parent.write("memory.reclaim", "1M")?;
    let others = gave(&full, &slow.cgroup.stat()?);
    let gone = cached - slow.file.cached_pages()?;
    ensure!(
        gone >= PAGES_PER_MIB * 7 / 8 && others.0 == 0 && others.1 > 0,
        "{gone} pages went for others, of which it gave {others:?}"
    );
    Ok(format!("{own:?} for itself, {limited:?} at its limit, {gone} for others without it"))
}

/// Time of a processor and of the clock.
#[derive(Debug, Clone, Copy)]
struct Cost {
    processor: Duration,
    clock: Duration,
}

fn processor_time() -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time has room.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    checked(result, "clock_gettime")?;
    Ok(Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

impl Slow {
    fn set_mode(&self, mode: Mode) -> Result<()> {
        Handle::of(self.attached.policy())?.set_mode(mode);
        Ok(())
    }

    /// What it costs this process to have the cgroup above reclaim so often.
    fn cost_of(&self, times: u32) -> Result<Cost> {
        let (start, before) = (Instant::now(), processor_time()?);
        for _ in 0..times {
            self.reclaim()?;
        }
        Ok(Cost { processor: processor_time()? - before, clock: start.elapsed() })
    }
}

/// Reclaim for a cgroup above two policies, of which one takes all the time that it may: it costs
/// no more than is stated, and the other policy serves its part.
fn bounded(_: &Lab) -> Outcome {
    const TIMES: u32 = 200;
    const PAGES: u64 = 32 * TIMES as u64;
    let slow = Slow::create("bounded")?;
    let neighbour = slow.parent.child("neighbour", None)?;
    let _fifo = policy::attach("fifo", &neighbour)?;
    let file = TestFile::sparse("neighbours", 64 * PAGES_PER_MIB)?;
    child::run(&neighbour, || file.skim(0..file.pages))?;
    slow.set_mode(Mode::Honest)?;
    let usual = slow.cost_of(TIMES)?;
    slow.set_mode(Mode::Slow)?;
    let before = (slow.cgroup.stat()?, neighbour.stat()?);
    let cost = slow.cost_of(TIMES)?;
    let after = (slow.cgroup.stat()?, neighbour.stat()?);

    let (given, unasked) = gave(&before.0, &after.0);
    let (neighbours, _) = gave(&before.1, &after.1);
    // Of the time in which the kernel reclaims what it gives, 16 times as much; an eighth of the
    // clock; and a request that began before it owed too much.
    let in_proportion = usual.processor.mul_f64(16.0 * ratio(given, PAGES));
    let most = usual.processor + MOST_OWED + in_proportion + cost.clock / 8 + SPIN;
    let said = format!("{usual:?} as usual, {cost:?} of at most {most:?}, {given} pages from it");
    ensure!(cost.processor <= most, "{said}");
    ensure!(unasked > 0, "it took less than it may: {said}");
    ensure!(neighbours >= PAGES / 8, "{neighbours} pages of the neighbour's policy: {said}");
    Ok(format!("{said}, {neighbours} from its neighbour, {unasked} times not asked"))
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
