// SPDX-License-Identifier: Apache-2.0
//! The readahead policies on streams whose best readahead is known.

#![allow(clippy::unwrap_used)]

use cachepilot_models::hash::page_hash;
use cachepilot_models::policy::{self, InstanceConfig};
use cachepilot_models::prefetch::{
    Access, Ahead, FilePages, PrefetchConfig, PrefetchStats, Prefetcher, Simulator, find,
    prefetchers,
};
use proptest::prelude::*;

const FILE_PAGES: u64 = 8192;
const CAPACITY: u64 = 2048;

fn config(policy: &Prefetcher, eviction: &str, capacity_pages: u64) -> PrefetchConfig {
    let eviction = policy::resolve(eviction).unwrap();
    let tunables = eviction.tunables.clone();
    PrefetchConfig {
        eviction,
        cache: InstanceConfig { capacity_pages, batch: 1, seed: 1, tunables },
        max_window_pages: 32,
        file_pages: FilePages::Every(FILE_PAGES),
        tunables: policy.manifest.tunable_defaults(),
    }
}

fn check(stats: &PrefetchStats) {
    for Ahead { pages, used, wasted, pending } in [stats.ahead, stats.own] {
        assert_eq!(pages, used + wasted + pending, "{stats:?}");
    }
    assert!(stats.own.pages <= stats.ahead.pages, "{stats:?}");
    assert_eq!(stats.disk_pages, stats.misses + stats.ahead.pages, "{stats:?}");
}

fn run(policy: &str, accesses: &[Access]) -> PrefetchStats {
    let policy = find(policy).unwrap();
    let mut simulator = Simulator::new(policy, config(policy, "lru", CAPACITY)).unwrap();
    simulator.run(accesses.iter().copied()).unwrap();
    let stats = simulator.stats();
    assert_eq!(stats.reads, accesses.len() as u64);
    check(&stats);
    stats
}

fn of_file(file: u64, pages: impl IntoIterator<Item = u64>) -> Vec<Access> {
    pages.into_iter().map(|index| Access { file, index, ..Access::default() }).collect()
}

fn random(count: u64) -> Vec<Access> {
    of_file(1, (0..count).map(|i| page_hash(i) % FILE_PAGES))
}

fn interleaved(streams: &[Vec<Access>]) -> Vec<Access> {
    let most = streams.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|i| streams.iter().filter_map(move |s| s.get(i).copied())).collect()
}

#[test]
fn a_sequential_stream_is_read_by_windows_of_linux() {
    let stats = run("linux", &of_file(1, 0..4096));
    // 4, 8, 16 pages, and then 32 at a time.
    let Ahead { used, wasted, .. } = stats.ahead;
    assert_eq!((stats.misses, used, wasted), (1, 4095, 0));
    assert!((128..=134).contains(&stats.disk_reads), "{stats:?}");
    assert_eq!(stats.own, stats.ahead);
}

#[test]
fn linux_distinguishes_streams_of_one_open_file() {
    let streams = [of_file(1, 0..2000), of_file(1, 4000..6000)];
    let stats = run("linux", &interleaved(&streams));
    assert!(stats.misses < 10 && stats.ahead.wasted == 0, "{stats:?}");
}

#[test]
fn a_policy_that_declines_reads_like_linux() {
    for accesses in [of_file(1, 0..4096), random(500)] {
        let (linux, stride) = (run("linux", &accesses), run("stride", &accesses));
        assert_eq!(stride.asked, stride.declined);
        assert_eq!(stride.own, Ahead::default());
        assert_eq!(PrefetchStats { declined: 0, own: linux.own, ..stride }, linux);
    }
}

#[test]
fn a_strided_stream_is_served_by_stride_and_by_leap_but_not_by_linux() {
    let accesses = of_file(1, (0..FILE_PAGES).step_by(11));
    let reads = accesses.len() as u64;
    let [linux, stride, leap] = ["linux", "stride", "leap"].map(|name| run(name, &accesses));
    assert!(linux.misses == reads, "{linux:?}");
    assert!(stride.misses <= 3 && stride.ahead.wasted == 0, "{stride:?}");
    assert!(stride.disk_pages <= reads + 35, "{stride:?}");
    // Eight pages ahead, decided at a miss each.
    assert!(leap.misses * 8 <= reads + 64 && leap.ahead.wasted == 0, "{leap:?}");
}

#[test]
fn a_stride_backwards_is_served() {
    let accesses = of_file(1, (0..FILE_PAGES).step_by(7).collect::<Vec<_>>().into_iter().rev());
    let stride = run("stride", &accesses);
    assert!(stride.misses <= 3, "{stride:?}");
    assert!(stride.ahead.wasted + stride.ahead.pending <= 16, "{stride:?}");
}

#[test]
fn strided_streams_of_one_file_are_distinguished_by_their_place() {
    let streams = [
        of_file(1, (0..2000).step_by(5)),
        of_file(1, (7000..8000).step_by(9)),
        of_file(2, (0..4000).step_by(40)),
    ];
    let accesses = interleaved(&streams);
    let stride = run("stride", &accesses);
    assert!(stride.misses <= 9, "{stride:?}");
}

#[test]
fn random_reads_are_read_as_they_are() {
    let accesses = random(2000);
    let [linux, leap, stride] = ["linux", "leap", "stride"].map(|name| run(name, &accesses));
    assert!(leap.ahead.pages * 100 <= leap.misses, "{leap:?}");
    assert!(leap.ahead.pages <= linux.ahead.pages, "{leap:?} {linux:?}");
    assert!(stride.ahead.pages <= linux.ahead.pages + 8, "{stride:?}");
}

#[test]
fn leap_follows_the_majority_through_reads_that_go_elsewhere() {
    let strided = of_file(1, (0..4000).step_by(6));
    let mut accesses = Vec::new();
    for (i, access) in strided.into_iter().enumerate() {
        accesses.push(access);
        if i % 8 == 7 {
            accesses.push(Access { index: 4000 + page_hash(i as u64) % 4000, ..access });
        }
    }
    let (linux, leap) = (run("linux", &accesses), run("leap", &accesses));
    assert!(leap.misses * 2 < linux.misses, "{leap:?} {linux:?}");
    assert!(leap.ahead.used * 2 >= leap.ahead.pages, "{leap:?}");
}

#[test]
fn threads_do_not_blur_each_others_pattern_for_leap() {
    let with_task = |task, step| {
        let pages = (0..FILE_PAGES).step_by(step).map(|index| Access {
            file: 1,
            index,
            task,
            ..Access::default()
        });
        pages.collect::<Vec<_>>()
    };
    let together = run("leap", &interleaved(&[with_task(1, 13), with_task(2, 17)]));
    assert!(together.misses * 6 <= together.reads, "{together:?}");
}

#[test]
fn unused_pages_read_ahead_are_wasted_once_evicted() {
    // The starts of many files, each of which linux takes for a stream.
    let accesses: Vec<Access> =
        (0..4000).map(|file| Access { file: file + 1, ..Access::default() }).collect();
    let stats = run("linux", &accesses);
    assert_eq!((stats.ahead.used, stats.misses), (0, 4000));
    assert_eq!(stats.ahead.wasted + stats.ahead.pending, 3 * 4000);
    assert!(stats.ahead.wasted >= 3 * 4000 - CAPACITY, "{stats:?}");
}

#[test]
fn every_policy_survives_any_stream_in_the_smallest_cache() {
    for policy in prefetchers() {
        for (capacity, max_window_pages) in [(4, 1), (5, 1024), (64, 32)] {
            let config = PrefetchConfig { max_window_pages, ..config(policy, "lru", capacity) };
            let mut simulator = Simulator::new(policy, config).unwrap();
            simulator.run(random(300)).unwrap();
            simulator.run(of_file(3, (0..3000).step_by(3))).unwrap();
            simulator.run(of_file(u64::MAX, (0..500).rev())).unwrap();
            simulator
                .run(of_file(4, [u64::MAX, u64::MAX - 3, u64::MAX - 6, u64::MAX - 9]))
                .unwrap();
            check(&simulator.stats());
        }
    }
}

#[test]
fn every_second_page_is_a_sequential_stream_to_linux() {
    // To the kernel the last read ended where the page that is left out begins: a window of 4 pages
    // at each miss, whose mark is on a page that is never read.
    let stats = run("linux", &of_file(1, (0..FILE_PAGES).step_by(2)));
    assert!(stats.misses * 2 == stats.reads, "{stats:?}");
}

#[test]
fn a_mark_on_the_page_that_is_asked_for_is_met_at_once() {
    // In a cache of 4 pages a window has one, which has the mark as well.
    let policy = find("linux").unwrap();
    let mut simulator = Simulator::new(policy, config(policy, "lru", 4)).unwrap();
    simulator.run(of_file(1, 0..100)).unwrap();
    assert_eq!(simulator.stats().misses, 1, "{:?}", simulator.stats());
}

#[test]
fn a_read_of_many_pages_waits_once_and_goes_on_from_its_window() {
    let policy = find("linux").unwrap();
    let mut simulator = Simulator::new(policy, config(policy, "lru", CAPACITY)).unwrap();
    let read = |index| Access { file: 1, index, pages: 16, ..Access::default() };
    // At random: what is wanted and no more.
    simulator.run([read(5000)]).unwrap();
    let stats = simulator.stats();
    assert_eq!((stats.reads, stats.misses, stats.waits, stats.ahead.pages), (16, 16, 1, 0));
    // The start of a file: a window of twice as much, and at its mark, on page 16, the next one.
    simulator.run([read(0), read(16)]).unwrap();
    let stats = simulator.stats();
    check(&stats);
    assert_eq!((stats.misses, stats.waits), (32, 2));
    assert_eq!((stats.ahead.pages, stats.ahead.used), (16 + 32, 16));
    assert_eq!(stats.disk_reads, 3);
}

#[test]
fn a_read_of_more_than_a_window_is_read_by_what_a_device_takes() {
    let policy = find("linux").unwrap();
    let mut simulator = Simulator::new(policy, config(policy, "lru", CAPACITY)).unwrap();
    simulator.run([Access { file: 1, index: 1000, pages: 600, ..Access::default() }]).unwrap();
    let stats = simulator.stats();
    check(&stats);
    assert_eq!((stats.reads, stats.misses + stats.ahead.used), (600, 600));
    assert!(stats.waits <= 2, "{stats:?}");
}

#[test]
fn writes_wait_for_nothing_and_use_what_was_read_ahead() {
    let policy = find("linux").unwrap();
    let mut simulator = Simulator::new(policy, config(policy, "lru", CAPACITY)).unwrap();
    let write = |index| Access { file: 1, index, write: true, ..Access::default() };
    simulator.run([write(500)]).unwrap();
    simulator.run(of_file(1, 0..1)).unwrap();
    simulator.run((1..4).map(write)).unwrap();
    let stats = simulator.stats();
    check(&stats);
    assert_eq!((stats.writes, stats.reads, stats.misses, stats.disk_pages), (4, 1, 1, 4));
    assert_eq!(stats.ahead, Ahead { pages: 3, used: 3, wasted: 0, pending: 0 });
}

#[test]
fn the_eviction_policy_decides_which_unread_pages_are_evicted() {
    // Hot pages and one stream: the stream pushes out less where hot pages are told apart.
    let hot = (0..20_000).map(|i| page_hash(i) % 300 * 13);
    let scan = (0..20_000).map(|i| 4000 + i % 4000);
    let accesses = interleaved(&[of_file(1, hot), of_file(2, scan)]);
    let policy = find("linux").unwrap();
    let misses = ["fifo", "s3fifo"].map(|eviction| {
        let mut simulator = Simulator::new(policy, config(policy, eviction, 400)).unwrap();
        simulator.run(accesses.iter().copied()).unwrap();
        check(&simulator.stats());
        simulator.stats().misses
    });
    assert!(misses[1] * 10 < misses[0] * 9, "{misses:?}");
}

/// Runs of reads at a distance, and writes among them.
fn stretches() -> impl Strategy<Value = Vec<Access>> {
    let place = (0..3u64, 0..FILE_PAGES, 0..40u64, 1..60u64);
    let how = (prop_oneof![4 => Just(1u64), 1 => 2..50u64], 0..3u32, prop::bool::weighted(0.1));
    prop::collection::vec((place, how), 1..40).prop_map(|stretches| {
        let of = |((file, first, step, count), (pages, task, write))| {
            (0..count).map(move |i| {
                let index = (first + i * step) % FILE_PAGES;
                Access { file, index, pages, task, write, time_ns: Some(i) }
            })
        };
        stretches.into_iter().flat_map(of).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_page_that_is_read_ahead_is_used_wasted_or_pending(
        accesses in stretches(),
        capacity in 4..400u64,
        batch in 1..=32u32,
    ) {
        for policy in prefetchers() {
            for eviction in policy::policies() {
                let mut config = config(policy, &eviction.manifest.name, capacity);
                config.cache.batch = batch;
                let mut simulator = Simulator::new(policy, config).unwrap();
                simulator.run(accesses.iter().copied()).unwrap();
                check(&simulator.stats());
            }
        }
    }
}

#[test]
fn refusals_name_what_is_wrong() {
    assert!(find("nope").unwrap_err().to_string().contains("leap, linux, stride"));
    let policy = find("leap").unwrap();
    let good = config(policy, "lru", 100);
    for (wrong, word) in [
        (config(policy, "lru", 3), "size"),
        (PrefetchConfig { tunables: Vec::new(), ..good.clone() }, "tunables"),
        (PrefetchConfig { max_window_pages: 0, ..good }, "window"),
    ] {
        let message = Simulator::new(policy, wrong).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}
