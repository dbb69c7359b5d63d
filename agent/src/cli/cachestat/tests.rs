// SPDX-License-Identifier: Apache-2.0

use super::*;
use cachepilot_agent::cachestat::{Cold, Counted, Point, Predicted};
use cachepilot_agent::node::kernel::tenant::memory::CachedFiles;

const MIB: u64 = 1 << 20;

fn point(mib: u64, miss_ratio: f64) -> Option<Point> {
    Some(Point { size_bytes: mib * MIB, miss_ratio, error: 0.008 })
}

fn idle(cgroup: &str) -> CgroupReport {
    CgroupReport {
        cgroup: cgroup.into(),
        id: 7,
        policy: "default".into(),
        watched_s: 30.0,
        counted: Some(Counted { seconds: 2.0, ..Counted::default() }),
        cached: Some(CachedFiles { file: 3 * MIB / 2, mapped: 4096 }),
        working_set_bytes: Some(0),
        predicted: None,
        trusted: false,
        distrust: "no accesses in 30 s".into(),
    }
}

fn busy(cgroup: &str, accesses: u64) -> CgroupReport {
    let around = [vec![Some(1.0), Some(0.5)], vec![Some(0.0); 8], vec![None]].concat();
    CgroupReport {
        counted: Some(Counted {
            seconds: 2.0,
            accesses,
            misses: accesses / 10,
            readahead_pages: accesses / 5,
            refaults: 50,
            read_calls: 9,
            ..Counted::default()
        }),
        cached: Some(CachedFiles { file: 2049 * MIB, mapped: 0 }),
        working_set_bytes: Some(512 << 10),
        predicted: Some(Predicted {
            at: [point(16, 0.5), point(32, 0.25), None],
            cold: Some(Cold { bytes: 24 * MIB, min_bytes: 20 * MIB }),
            around,
            curve: vec![Point { size_bytes: 8 * MIB, miss_ratio: 0.75, error: 0.01 }],
        }),
        trusted: true,
        distrust: String::new(),
        ..idle(cgroup)
    }
}

fn report(cgroups: Vec<CgroupReport>) -> Report {
    Report {
        time_us: 5_000_000,
        interval_s: 2.0,
        watched_s: 30.0,
        window_s: 60.0,
        cold_points: 0.5,
        lost_events: 0,
        cgroups,
    }
}

#[test]
fn a_line_of_the_table_shows_a_cgroup() {
    let text = table::text(&report(vec![busy("/db", 2000), idle("/old")]), 9, false);
    let lines: Vec<&str> = text.lines().collect();
    let head = "30 s watched, 2.0 s interval, 2 of 9 cgroups, wss of 30 s, cold at +0.5 points";
    assert_eq!((lines[0], lines.len()), (head, 4));
    let cells = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(cells(lines[1]).last().unwrap(), "note");
    let expected = "/db 1000 90.0 200 25 30.0 50.0±0.8 25.0±0.8 - 2.0G 512K 24.0M 20.0M █▅▁▁▁▁▁▁▁▁";
    assert_eq!(cells(lines[2]).join(" "), expected);
    let expected = "/old 0 - 0 0 - - - - 1.5M 0K - - - no accesses in 30 s";
    assert_eq!(cells(lines[3]).join(" "), expected);
    assert_eq!(lines[1].find("note"), lines[3].find("no accesses"));
}

#[test]
fn low_confidence_has_a_mark_and_a_reason() {
    let doubted = CgroupReport { trusted: false, distrust: "warming up".into(), ..busy("/db", 10) };
    let lost = Report { lost_events: 3, ..report(vec![doubted]) };
    let text = table::text(&lost, 1, false);
    for words in ["25.0±0.8?", " 24.0M?", " 20.0M?", "warming up", "3 sampled accesses lost"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("90.0?"), "what was counted is not in doubt: {text}");
}

#[test]
fn whole_curves_follow_the_table() {
    let text = table::text(&report(vec![busy("/db", 10), idle("/old")]), 2, true);
    let (table, curves) = text.split_once("\n\n").unwrap();
    assert_eq!(table.lines().count(), 4);
    assert_eq!(curves, "cgroup  size  miss%   +-\n/db     8.0M   75.0  1.0\n");
    assert!(!table::text(&report(vec![idle("/old")]), 1, true).contains("\n\n"));
}

#[test]
fn json_has_the_same_numbers_in_full() {
    let report = report(vec![busy("/db", 2000), idle("/old")]);
    let told = json::object(&report, &["splices: none".into()], false);
    assert_eq!(told["not_seen"][0], "splices: none");
    assert_eq!((&told["cold_points"], &told["interval_s"]), (&0.5.into(), &2.0.into()));
    let db = &told["cgroups"][0];
    for (key, value) in [
        ("accesses", 2000),
        ("misses", 200),
        ("readahead_pages", 400),
        ("refaults", 50),
        ("read_calls", 9),
        ("file_bytes", 2049 * MIB),
        ("working_set_bytes", 512 << 10),
        ("cold_bytes", 24 * MIB),
        ("cold_min_bytes", 20 * MIB),
    ] {
        assert_eq!(db[key], value, "{key}");
    }
    for (key, value) in [
        ("accesses_per_s", 1000.0),
        ("refaults_per_s", 25.0),
        ("hit_ratio", 0.9),
        ("fill_ratio", 0.3),
        ("working_set_s", 30.0),
    ] {
        assert_eq!(db[key], value, "{key}");
    }
    assert_eq!(db["predicted_present"]["miss_ratio"], 0.25);
    assert_eq!(db["predicted_half"]["size_bytes"], 16 * MIB);
    assert!(db["predicted_double"].is_null() && db["curve"].is_null());
    let old = &told["cgroups"][1];
    assert!(old["hit_ratio"].is_null() && old["cold_bytes"].is_null());
    assert_eq!((&old["accesses"], &old["trusted"]), (&0.into(), &false.into()));
    let with_curves = json::object(&report, &[], true);
    assert_eq!(with_curves["cgroups"][0]["curve"][0]["error"], 0.01);
    assert_eq!(with_curves["cgroups"][1]["curve"].as_array().unwrap().len(), 0);
}

#[test]
fn the_first_are_the_busiest_or_what_is_asked_for() {
    let order = |by: Column| {
        let mut worse = busy("/worse", 300);
        worse.counted.as_mut().unwrap().misses = 200;
        let mut cgroups = vec![busy("/a", 100), idle("/idle"), worse];
        sort(&mut cgroups, by);
        cgroups.into_iter().map(|one| one.cgroup).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(Column::Accesses), "/worse /a /idle");
    assert_eq!(order(Column::Cgroup), "/a /idle /worse");
    assert_eq!(order(Column::Hit), "/worse /a /idle");
    for column in [Column::Refaults, Column::File, Column::Wss, Column::Cold] {
        assert_eq!(order(column), "/a /worse /idle", "{column:?}");
    }
}
