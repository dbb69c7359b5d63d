// SPDX-License-Identifier: Apache-2.0
//! The readahead policies on streams whose best readahead is known.

#![allow(clippy::unwrap_used)]

use cachepilot_models::hash::page_hash;
use cachepilot_models::prefetch::{
    Access, PrefetchConfig, PrefetchStats, Simulator, find, prefetchers,
};

const FILE_PAGES: u64 = 8192;
const CAPACITY: u64 = 2048;

fn run(policy: &str, accesses: &[Access]) -> PrefetchStats {
    let policy = find(policy).unwrap();
    let config = PrefetchConfig {
        capacity: CAPACITY,
        max_pages: 32,
        file_pages: FILE_PAGES,
        tunables: policy.manifest.tunable_defaults(),
    };
    let mut simulator = Simulator::new(policy, config).unwrap();
    simulator.run(accesses.iter().copied());
    let stats = simulator.stats();
    assert_eq!(stats.accesses, accesses.len() as u64);
    assert_eq!(stats.ahead, stats.used + stats.wasted + stats.waiting, "{stats:?}");
    assert_eq!(stats.pages, stats.misses + stats.ahead, "{stats:?}");
    stats
}

fn of_file(file: u64, pages: impl IntoIterator<Item = u64>) -> Vec<Access> {
    pages.into_iter().map(|index| Access { file, index, task: 0 }).collect()
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
    assert_eq!((stats.misses, stats.ahead, stats.wasted), (1, 4095 + stats.waiting, 0));
    assert!((128..=134).contains(&stats.requests), "{stats:?}");
}

#[test]
fn streams_of_one_open_file_are_told_apart_by_linux() {
    let streams = [of_file(1, 0..2000), of_file(1, 4000..6000)];
    let stats = run("linux", &interleaved(&streams));
    assert!(stats.misses < 10 && stats.wasted == 0, "{stats:?}");
}

#[test]
fn what_a_policy_leaves_to_the_kernel_is_what_linux_does() {
    for accesses in [of_file(1, 0..4096), random(500)] {
        let (linux, stride) = (run("linux", &accesses), run("stride", &accesses));
        assert_eq!(stride.asked, stride.declined);
        assert_eq!(PrefetchStats { declined: 0, ..stride }, linux);
    }
}

#[test]
fn a_strided_stream_is_served_by_stride_and_by_leap_but_not_by_linux() {
    let accesses = of_file(1, (0..FILE_PAGES).step_by(11));
    let reads = accesses.len() as u64;
    let [linux, stride, leap] = ["linux", "stride", "leap"].map(|name| run(name, &accesses));
    assert!(linux.misses == reads, "{linux:?}");
    assert!(stride.misses <= 3 && stride.wasted == 0, "{stride:?}");
    assert!(stride.pages <= reads + 35, "{stride:?}");
    // Eight pages ahead, decided at a miss each.
    assert!(leap.misses * 8 <= reads + 64 && leap.wasted == 0, "{leap:?}");
}

#[test]
fn a_stride_backwards_is_served() {
    let accesses = of_file(1, (0..FILE_PAGES).step_by(7).collect::<Vec<_>>().into_iter().rev());
    let stride = run("stride", &accesses);
    assert!(stride.misses <= 3 && stride.wasted + stride.waiting <= 16, "{stride:?}");
}

#[test]
fn strided_streams_of_one_file_are_told_apart_by_where_they_are() {
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
    assert!(leap.ahead * 100 <= leap.misses, "{leap:?}");
    assert!(leap.ahead <= linux.ahead, "{leap:?} {linux:?}");
    assert!(stride.ahead <= linux.ahead + 8, "{stride:?}");
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
    assert!(leap.used * 2 >= leap.ahead, "{leap:?}");
}

#[test]
fn threads_do_not_blur_each_others_pattern_for_leap() {
    let with_task = |task, step| {
        let pages = (0..FILE_PAGES).step_by(step).map(|index| Access { file: 1, index, task });
        pages.collect::<Vec<_>>()
    };
    let together = run("leap", &interleaved(&[with_task(1, 13), with_task(2, 17)]));
    assert!(together.misses * 6 <= together.accesses, "{together:?}");
}

#[test]
fn what_is_read_ahead_and_never_used_is_wasted_once_it_is_evicted() {
    // The starts of many files, each of which linux takes for a stream.
    let accesses: Vec<Access> =
        (0..4000).map(|file| Access { file: file + 1, index: 0, task: 0 }).collect();
    let stats = run("linux", &accesses);
    assert_eq!((stats.used, stats.misses), (0, 4000));
    assert_eq!(stats.wasted + stats.waiting, 3 * 4000);
    assert!(stats.wasted >= 3 * 4000 - CAPACITY, "{stats:?}");
}

#[test]
fn every_policy_survives_any_stream_in_the_smallest_cache() {
    for policy in prefetchers() {
        for (capacity, max_pages) in [(4, 1), (5, 1024), (64, 32)] {
            let tunables = policy.manifest.tunable_defaults();
            let config = PrefetchConfig { capacity, max_pages, file_pages: FILE_PAGES, tunables };
            let mut simulator = Simulator::new(policy, config).unwrap();
            simulator.run(random(300));
            simulator.run(of_file(3, (0..3000).step_by(3)));
            simulator.run(of_file(u64::MAX, (0..500).rev()));
            let stats = simulator.stats();
            assert_eq!(stats.pages, stats.misses + stats.ahead, "{}", policy.manifest.name);
        }
    }
}

#[test]
fn refusals_name_what_is_wrong() {
    assert!(find("nope").unwrap_err().to_string().contains("leap, linux, stride"));
    let policy = find("leap").unwrap();
    let config =
        |capacity, tunables| PrefetchConfig { capacity, max_pages: 32, file_pages: 10, tunables };
    for config in [config(3, vec![8]), config(100, Vec::new())] {
        assert!(Simulator::new(policy, config).is_err());
    }
}
