// SPDX-License-Identifier: Apache-2.0
//! Policies of readahead: what they are asked, how their windows are bounded, what is counted.

use super::{Case, Ext4, Lab, MIB, Once, Outcome, PAGES_PER_MIB, Xfs, case};
use crate::cgroup::{Cgroup, Stat};
use crate::child;
use crate::ensure;
use crate::error::{Error, Result};
use crate::files::{TestFile, read_page, read_pages};
use crate::load::Load;
use crate::mapping::Mapping;
use crate::policy;
use crate::windowing::{NOTES, Window, attach, state, tell, tell_queue};
use std::thread;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    case("a_readahead_policy_is_asked_and_may_decline", &[Ext4, Xfs], asked),
    case("a_window_at_a_stride_is_read_and_nothing_else", &[Ext4, Xfs], strided),
    case("the_mark_of_a_window_asks_again", &[Ext4, Xfs], marked),
    case("readahead_is_told_useful_from_wasted", &[Ext4, Xfs], useful),
    case("windows_that_are_nonsense_are_bounded", &[Ext4, Xfs], bounded),
    case("faults_ask_a_readahead_policy", &[Ext4], faults),
    case("pages_asked_for_beside_the_window_come_for_the_reader", &[Ext4, Xfs], queued),
    case("requests_beyond_the_queue_are_dropped_and_counted", &[Once], overflow),
    case("a_child_inherits_the_readahead_policy", &[Once], inherited),
    case("a_readahead_policy_writes_to_the_window_alone", &[Once], overwriting),
    case("a_second_readahead_policy_is_refused", &[Once], second),
    case("a_readahead_policy_comes_and_goes_under_load", &[Ext4], comes_and_goes),
    case("the_cgroup_goes_before_the_readahead_policy", &[Ext4], cgroup_goes),
];

const PAGES: u64 = 4 * PAGES_PER_MIB;
const LIMIT: u64 = 8 * MIB;

/// Reads pages one by one, with the kernel's advice as it is by default.
fn read_in(cgroup: &Cgroup, file: &TestFile, pages: &[u64]) -> Result<()> {
    child::run(cgroup, || {
        child::stay_on_one_cpu()?;
        read_pages(&file.open()?, pages.iter().copied())
    })
}

fn asked(_: &Lab) -> Outcome {
    let file = TestFile::create("asked", PAGES)?;
    let cgroup = Cgroup::create("asked", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    read_in(&cgroup, &file, &(0..PAGES).collect::<Vec<_>>())?;
    let (stat, state) = (cgroup.stat()?, state(&attached)?);
    ensure!(stat.text("prefetch_policy") == "windowing", "{stat:?}");
    ensure!(stat.get("prefetch_owner") == cgroup.id()?, "{stat:?}");
    let asked: u64 = state.asked.iter().sum();
    ensure!(asked > 2 && state.asked[1] > 1, "asked {:?}", state.asked);
    ensure!(
        stat.get("prefetch_asked") == asked && stat.get("prefetch_declined") == asked,
        "asked {asked} times: {stat:?}"
    );
    ensure!(state.notes[0] == 0, "the first was page {}", state.notes[0]);
    ensure!(stat.get("prefetch_ahead_pages") == 0, "the kernel's own counts: {stat:?}");
    drop(attached);
    ensure!(cgroup.stat()?.text("prefetch_policy") == "none", "it is still there");
    Ok(format!("{:?}", state.asked))
}

fn strided(_: &Lab) -> Outcome {
    const STRIDE: u64 = 10;
    const TIMES: u64 = 8;
    let file = TestFile::create("strided", PAGES)?;
    let cgroup = Cgroup::create("strided", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    let window = Window { start: STRIDE, size: 1, stride: 10, times: TIMES, ..Window::default() };
    tell(&attached, window)?;
    let expected: Vec<u64> = (0..=TIMES).map(|block| 100 + STRIDE * block).collect();
    read_in(&cgroup, &file, &[100])?;
    ensure!(file.cached_pages()? == TIMES + 1, "{} pages are cached", file.cached_pages()?);
    read_in(&cgroup, &file, &expected)?;
    let (stat, state) = (cgroup.stat()?, state(&attached)?);
    ensure!(state.noted == 1, "asked about {:?}", &state.notes[..state.noted as usize % NOTES]);
    let counts = figures(&stat, ["ahead_pages", "used_pages", "wasted_pages", "bounded"]);
    ensure!(counts == [TIMES, TIMES, 0, 0], "{counts:?}: {stat:?}");
    ensure!(state.used == TIMES, "told of {} pages", state.used);
    Ok(format!("{counts:?}"))
}

fn figures<const N: usize>(stat: &Stat, names: [&str; N]) -> [u64; N] {
    names.map(|name| stat.get(&format!("prefetch_{name}")))
}

fn marked(_: &Lab) -> Outcome {
    let file = TestFile::create("marked", PAGES)?;
    let cgroup = Cgroup::create("marked", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    // Blocks at 100, 120, 140, 160 and 180 behind the page; the mark is on the third of two pages.
    tell(
        &attached,
        Window { start: 100, size: 2, async_size: 6, stride: 20, times: 5, ..Window::default() },
    )?;
    read_in(&cgroup, &file, &[0])?;
    for (page, asked) in [(100, 1), (121, 1), (141, 1), (140, 2)] {
        read_in(&cgroup, &file, &[page])?;
        let state = state(&attached)?;
        ensure!(state.noted == asked, "after page {page}: {:?}", &state.notes[..4]);
    }
    let state = state(&attached)?;
    ensure!(state.asked == [1, 1, 0, 0] && state.notes[1] == 140, "{:?}", &state.notes[..4]);
    ensure!(
        state.before == 0 && state.after == 1,
        "{} before, {} after",
        state.before,
        state.after
    );
    Ok(format!("{:?}", &state.notes[..2]))
}

fn useful(_: &Lab) -> Outcome {
    let file = TestFile::create("useful", PAGES)?;
    let cgroup = Cgroup::create("useful", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    tell(&attached, Window { start: 1, size: 64, ..Window::default() })?;
    read_in(&cgroup, &file, &[200])?;
    read_in(&cgroup, &file, &(201..211).collect::<Vec<_>>())?;
    read_in(&cgroup, &file, &(201..211).collect::<Vec<_>>())?;
    let before = figures(&cgroup.stat()?, ["ahead_pages", "used_pages", "wasted_pages"]);
    let names = ["ahead_pages", "used_pages", "wasted_pages", "truncated_pages"];
    // Everything goes, by reclaim as far as it wants, and then by advice.
    let _ = cgroup.write("memory.reclaim", "1M");
    file.uncache()?;
    let stat = cgroup.stat()?;
    let [ahead, used, wasted, truncated] = figures(&stat, names);
    ensure!(ahead == 64 && ahead == used + wasted + truncated, "{before:?} {stat:?}");
    // Of a large folio one access is one to all of its pages.
    ensure!((10..=32).contains(&used) && used == before[1], "{used} were used: {stat:?}");
    ensure!(wasted > 0, "nothing was evicted: {stat:?}");
    Ok(format!("{ahead} read ahead, {used} used, {wasted} wasted, {truncated} truncated"))
}

/// Windows no policy should leave.
const NONSENSE: [Window; 7] = [
    Window {
        from_file_start: false,
        start: 1,
        size: u32::MAX as u64,
        async_size: u32::MAX as u64,
        stride: 1,
        times: u32::MAX as u64,
    },
    Window { from_file_start: true, start: u64::MAX, size: 8, async_size: 8, stride: 0, times: 1 },
    Window {
        from_file_start: true,
        start: 0,
        size: u32::MAX as u64,
        async_size: 0,
        stride: 0,
        times: 0,
    },
    Window { from_file_start: false, start: 1, size: 1, async_size: 7, stride: i64::MIN, times: 9 },
    Window { from_file_start: false, start: 1, size: 1, async_size: 7, stride: i64::MAX, times: 9 },
    Window {
        from_file_start: true,
        start: PAGES - 1,
        size: 9,
        async_size: 20,
        stride: -3,
        times: 31,
    },
    Window {
        from_file_start: false,
        start: u64::MAX,
        size: 1,
        async_size: 1,
        stride: -1,
        times: u32::MAX as u64,
    },
];

fn bounded(_: &Lab) -> Outcome {
    let mut said = Vec::new();
    for window in NONSENSE {
        let file = TestFile::create("bounded", PAGES)?;
        let cgroup = Cgroup::create("bounded", Some(LIMIT / 2))?;
        let attached = attach(&cgroup)?;
        tell(&attached, window)?;
        read_in(&cgroup, &file, &[500, 100, 900])?;
        let stat = cgroup.stat()?;
        let most = 3 * (LIMIT / 2 / 4096 / 4 + 1);
        let cached = file.cached_pages()?;
        ensure!((3..=most).contains(&cached), "{cached} pages are cached: {window:?}");
        ensure!(cgroup.figure("memory.events", "oom")? == 0, "out of memory: {window:?}");
        let [asked, bounded] = figures(&stat, ["asked", "bounded"]);
        ensure!(bounded > 0 && bounded <= asked, "{window:?}: {stat:?}");
        said.push(cached.to_string());
    }
    Ok(format!("{} pages", said.join(", ")))
}

fn faults(_: &Lab) -> Outcome {
    let file = TestFile::create("faults", PAGES)?;
    let cgroup = Cgroup::create("faults", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    tell(&attached, Window { start: 0, size: 4, ..Window::default() })?;
    child::run(&cgroup, || {
        let mapping = Mapping::of_file(&file.open()?, PAGES)?;
        mapping.check_pages([300, 301])
    })?;
    let (stat, state) = (cgroup.stat()?, state(&attached)?);
    ensure!(state.asked == [0, 0, 1, 0] && state.notes[0] == 300, "{:?}", &state.notes[..4]);
    ensure!(file.cached_pages()? == 4, "{} pages are cached", file.cached_pages()?);
    let [ahead, used] = figures(&stat, ["ahead_pages", "used_pages"]);
    ensure!(ahead == 3 && used >= 1, "{stat:?}");
    Ok(format!("{ahead} read ahead, {used} used"))
}

fn queued(_: &Lab) -> Outcome {
    const SIZE: u64 = 100;
    let file = TestFile::create("queued", PAGES)?;
    let cgroup = Cgroup::create("queued", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    tell(&attached, Window::default())?;
    tell_queue(&attached, 500, SIZE, 1)?;
    read_in(&cgroup, &file, &[10])?;
    let stat = cgroup.wait_for("read ahead", |stat| stat.get("prefetch_ahead_pages") == SIZE)?;
    ensure!(figures(&stat, ["queued", "dropped"]) == [1, 0], "{stat:?}");
    let start = Instant::now();
    while file.cached_pages()? < SIZE + 1 && start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    ensure!(file.cached_pages()? == SIZE + 1, "{} pages are cached", file.cached_pages()?);
    let charged = cgroup.figure("memory.stat", "file")? / 4096;
    ensure!(charged >= SIZE, "{charged} pages are charged to the reader's cgroup");
    tell_queue(&attached, 0, 0, 0)?;
    read_in(&cgroup, &file, &(500..500 + SIZE).collect::<Vec<_>>())?;
    let (stat, state) = (cgroup.stat()?, state(&attached)?);
    ensure!(state.noted == 1 && stat.get("prefetch_used_pages") == SIZE, "{stat:?}");
    Ok(format!("{charged} pages are charged"))
}

fn overflow(_: &Lab) -> Outcome {
    let file = TestFile::create("overflow", PAGES)?;
    let cgroup = Cgroup::create("overflow", Some(64 * MIB))?;
    let attached = attach(&cgroup)?;
    tell(&attached, Window::default())?;
    // The worker is not as fast as this; what is not in the file is refused at once.
    tell_queue(&attached, 0, 512, 100)?;
    read_in(&cgroup, &file, &[900, 10, 700, 800])?;
    let (stat, told) = (cgroup.stat()?, state(&attached)?.queued);
    let [queued, dropped] = figures(&stat, ["queued", "dropped"]);
    ensure!(queued == told && dropped > 0, "{told} were taken: {stat:?}");
    ensure!((queued + dropped) % 100 == 0, "{stat:?}");
    tell_queue(&attached, PAGES, 1, 100)?;
    read_in(&cgroup, &file, &[950])?;
    ensure!(
        figures(&cgroup.stat()?, ["queued", "dropped"]) == [queued, dropped],
        "beyond the file"
    );
    drop(attached);
    file.uncache()?;
    Ok(format!("{queued} queued, {dropped} dropped"))
}

fn inherited(_: &Lab) -> Outcome {
    let file = TestFile::create("inherited", PAGES)?;
    let parent = Cgroup::create("inherited", Some(64 * MIB))?;
    let child = parent.child("child", None)?;
    let above = attach(&parent)?;
    read_in(&child, &file, &[100])?;
    ensure!(state(&above)?.noted == 1, "the parent's was not asked");
    ensure!(child.stat()?.get("prefetch_owner") == parent.id()?, "{:?}", child.stat()?);
    let own = attach(&child)?;
    read_in(&child, &file, &[300])?;
    ensure!(state(&above)?.noted == 1 && state(&own)?.noted == 1, "not the child's own was asked");
    let outside = Cgroup::create("outside", Some(64 * MIB))?;
    read_in(&outside, &file, &[500])?;
    ensure!(state(&above)?.noted == 1 && state(&own)?.noted == 1, "asked about other cgroups");
    Ok("inherited, and then its own".into())
}

fn overwriting(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("overwriting", None)?;
    match policy::load_prefetch("overwriting", &cgroup) {
        Err(Error::Refused { said, .. }) => {
            ensure!(said.contains("only the window"), "{said}");
            Ok(said)
        }
        Err(error) => Err(error),
        Ok(_) => Err(Error::Check("it was loaded".into())),
    }
}

fn second(_: &Lab) -> Outcome {
    let cgroup = Cgroup::create("second", None)?;
    let mut first = attach(&cgroup)?;
    let refused = attach(&cgroup).err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(refused.contains("busy"), "{refused:?}");
    first.swap(policy::load_prefetch("windowing", &cgroup)?)?;
    let eviction = policy::attach("fifo", &cgroup)?;
    let stat = cgroup.stat()?;
    ensure!(
        (stat.text("policy"), stat.text("prefetch_policy")) == ("fifo", "windowing"),
        "not both: {stat:?}"
    );
    drop(eviction);
    ensure!(cgroup.stat()?.text("prefetch_policy") == "windowing", "it went with the other");
    Ok(refused)
}

fn comes_and_goes(lab: &Lab) -> Outcome {
    let file = TestFile::create("comes", 4 * LIMIT / 4096)?;
    let cgroup = Cgroup::create("comes", Some(LIMIT))?;
    let load = Load::start_advised(&cgroup, &file, 4, TestFile::open)?;
    let start = Instant::now();
    let mut times = 0_u64;
    // On a machine that is very busy a few times take longer than that.
    while times < 2 || start.elapsed() < lab.time {
        let mut attached = attach(&cgroup)?;
        let window =
            Window { start: 1, size: 2, async_size: 2, stride: 16, times: 8, ..Window::default() };
        tell(&attached, window)?;
        tell_queue(&attached, times % 8 * 1000, 64, 2)?;
        thread::sleep(Duration::from_millis(50));
        drop(attached.swap(policy::load_prefetch("windowing", &cgroup)?)?);
        thread::sleep(Duration::from_millis(20));
        drop(attached);
        times += 1;
    }
    let reads = load.stop()?;
    let stat = cgroup.stat()?;
    ensure!(stat.text("prefetch_policy") == "none", "it stays: {stat:?}");
    Ok(format!("{times} times, {reads} reads"))
}

fn cgroup_goes(_: &Lab) -> Outcome {
    let file = TestFile::create("goes", 4 * LIMIT / 4096)?;
    let cgroup = Cgroup::create("goes", Some(LIMIT))?;
    let mut attached = attach(&cgroup)?;
    tell(&attached, Window { start: 1, size: 2, stride: 16, times: 8, ..Window::default() })?;
    tell_queue(&attached, 100, 64, 3)?;
    let load = Load::start_advised(&cgroup, &file, 4, TestFile::open)?;
    thread::sleep(Duration::from_millis(200));
    let next = policy::load_prefetch("windowing", &cgroup)?;
    cgroup.remove()?;
    load.was_killed()?;
    let asked = state(&attached)?.noted;
    ensure!(asked > 0, "it was never asked");
    let refused = attached.swap(next).err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(!refused.is_empty(), "a swap for a cgroup that is gone");
    drop(attached);
    let again = Cgroup::create("goes", Some(LIMIT))?;
    child::run(&again, || read_page(&file.open()?, 7))?;
    ensure!(again.stat()?.text("prefetch_policy") == "none", "it came back");
    Ok(format!("{asked} decisions; {refused}"))
}
