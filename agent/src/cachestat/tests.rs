// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::bpf::layout::Losses;
use crate::node::kernel::fake::{Fake, MIB};
use crate::node::kernel::sampling::tests::Source;

const TICK: Duration = Duration::from_millis(500);

fn stat(fake: &Fake, source: &Source, patterns: &[&str], max_tenants: u32) -> CacheStat {
    let options = Options {
        patterns: patterns.iter().map(|&pattern| pattern.into()).collect(),
        window: Duration::from_secs(10),
        cold_points: 1.0,
    };
    let source = Box::new(source.clone());
    CacheStat::with_parts(fake.fs(), source, 256 * MIB, max_tenants, options).unwrap()
}

fn has_cached(fake: &Fake, cgroup: &str, mib: u64) {
    let stat = format!("file {}\nactive_file {}\n", (mib + 2) * MIB, 2 * MIB);
    fake.write(cgroup, "memory.stat", &format!("{stat}file_mapped {}\n", 2 * MIB));
}

fn slot(source: &Source, id: u64) -> u32 {
    source.0.lock().unwrap().tracked[&id].0
}

#[test]
fn sizes_reach_from_small_cgroups_to_the_whole_machine() {
    let sizes = curves_config(64 << 30).sizes_pages;
    assert_eq!((sizes[0], sizes[4], sizes.len()), (64, 128, 73));
    assert_eq!(sizes.last(), Some(&(16 << 20)));
    assert_eq!(curves_config(64 << 30).simulated().len(), 1);
    assert_eq!(curves_config(0).sizes_pages, [64]);
}

#[test]
fn a_loop_over_a_quarter_of_the_cache_leaves_the_rest_cold() {
    let fake = Fake::new(&["/a"]);
    has_cached(&fake, "/a", 32);
    let source = Source::new();
    let mut stat = stat(&fake, &source, &[], 4);
    let id = fake.fs().id("/a").unwrap();
    let slot = slot(&source, id);
    let mut report = stat.look().unwrap();
    assert_eq!(report.cgroups[0].distrust, "no accesses in 0 s");
    for _ in 0..60 {
        source.access(id, 0..2048);
        source.0.lock().unwrap().counts.get_mut(&slot).unwrap().misses += 512;
        stat.tick(TICK).unwrap();
        stat.tick(TICK).unwrap();
        report = stat.look().unwrap();
    }
    let found = &report.cgroups[0];
    let counted = found.counted.unwrap();
    assert_eq!((counted.seconds, counted.accesses, counted.misses), (1.0, 2048, 512));
    assert_eq!(counted.hit_ratio(), Some(0.75));
    assert_eq!((report.interval_s, report.watched_s, found.watched_s), (1.0, 60.0, 60.0));
    let set = found.working_set_bytes.unwrap() as f64 / MIB as f64;
    assert!((set - 8.0).abs() < 0.8, "{set}");
    let predicted = found.predicted.as_ref().unwrap();
    let [half, present, double] = predicted.at.map(Option::unwrap);
    assert_eq!([half, present, double].map(|p| p.size_bytes / MIB), [16, 32, 64]);
    assert!(half.miss_ratio < 0.02 && present.miss_ratio < 0.02 && double.miss_ratio < 0.02);
    let cold = predicted.cold.unwrap();
    assert!((20..=25).contains(&(cold.bytes / MIB)), "{cold:?}");
    assert!(cold.min_bytes <= cold.bytes, "{cold:?}");
    // The counts now have a quarter of the accesses as misses, which the curve does not predict.
    assert!(!found.trusted && found.distrust.contains("measured 0.250"), "{}", found.distrust);
}

#[test]
fn new_cgroups_are_watched_and_removed_ones_are_not_shown() {
    let fake = Fake::new(&["/a", "/b"]);
    let source = Source::new();
    let mut stat = stat(&fake, &source, &["[ab]*"], 8);
    source.access(fake.fs().id("/a").unwrap(), 0..100);
    for _ in 0..4 {
        stat.tick(TICK).unwrap();
    }
    fake.make("/b2");
    fake.make("/c");
    std::fs::remove_dir_all(fake.fs().dir("/b")).unwrap();
    for _ in 0..4 {
        stat.tick(TICK).unwrap();
    }
    source.access(fake.fs().id("/b2").unwrap(), 0..300);
    for _ in 0..2 {
        stat.tick(TICK).unwrap();
    }
    let report = stat.look().unwrap();
    let rates = |one: &CgroupReport| {
        let counted = one.counted.unwrap();
        (one.cgroup.clone(), counted.seconds, counted.per_s(counted.accesses))
    };
    let shown: Vec<_> = report.cgroups.iter().map(rates).collect();
    assert_eq!(shown, [("/a".to_owned(), 5.0, 20.0), ("/b2".to_owned(), 1.0, 300.0)]);
}

#[test]
fn a_cgroup_without_room_says_so() {
    let fake = Fake::new(&["/a", "/b"]);
    let mut stat = stat(&fake, &Source::new(), &[], 1);
    let report = stat.look().unwrap();
    assert!(report.cgroups[0].counted.is_some());
    assert_eq!(report.cgroups[1].counted, None);
    assert!(report.cgroups[1].distrust.starts_with("accesses are not counted"));
}

#[test]
fn under_another_policy_the_curve_is_not_trusted() {
    let fake = Fake::new(&["/a"]);
    let stats = "policy s3fifo\nstate running\nowner 1\nreason -\n";
    fake.write("/a", crate::cgroup::STATS_FILE, stats);
    let report = stat(&fake, &Source::new(), &[], 1).look().unwrap();
    assert_eq!(report.cgroups[0].policy, "s3fifo");
    assert!(report.cgroups[0].distrust.starts_with("s3fifo decides here"));
}

#[test]
fn lost_events_are_reported_once() {
    let fake = Fake::new(&["/a"]);
    let source = Source::new();
    let mut stat = stat(&fake, &source, &[], 1);
    let lost = Losses { dropped_events: 7, ..Losses::default() };
    source.0.lock().unwrap().losses.insert(fake.fs().id("/a").unwrap(), lost);
    assert_eq!(stat.look().unwrap().lost_events, 7);
    assert_eq!(stat.look().unwrap().lost_events, 0);
}
