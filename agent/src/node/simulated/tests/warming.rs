// SPDX-License-Identifier: Apache-2.0
//! Tests of lists of pages: written for running tenants, read for future ones.

use super::*;
use std::fs;

/// A device with one read at a time, of `read_ms` milliseconds.
fn slow(read_ms: u32) -> String {
    format!("device = {{ read_us = {}.0, parallelism = 1, iops = 10000000 }}", read_ms * 1000)
}

fn reads(node: &mut SimulatedNode) -> u64 {
    node.observe().unwrap().device.reads_total
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| name(e).into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_pages_of_a_running_tenant_are_listed_on_request() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.toml"), definition("/kv", 10)).unwrap();
    let mut node = node_of(dir.path(), "");
    run(&mut node, 0.5);
    for (asked, listed) in [
        ("1000000\n", "0 10 /kv\n"),
        ("12388", "7 3 /kv\n"),
        ("4095", ""),
        ("18446744073709551615", "0 10 /kv\n"),
    ] {
        fs::write(dir.path().join("kv.list"), asked).unwrap();
        run(&mut node, 1.0);
        assert_eq!(names(dir.path()), ["kv.pages", "kv.toml"], "{asked}");
        let found = fs::read_to_string(dir.path().join("kv.pages")).unwrap();
        assert_eq!(found, listed, "the last ones where there are more: {asked}");
    }
    run(&mut node, 2.0);
    assert_eq!(names(dir.path()), ["kv.pages", "kv.toml"], "nobody waits for them here");
    let seen = (counters(&mut node, "/kv").misses_total, reads(&mut node), failures(&mut node));
    assert_eq!(seen, (10, 10, 0));
}

#[test]
fn an_invalid_request_is_logged_once_and_one_for_no_tenant_waits() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.toml"), definition("/kv", 10)).unwrap();
    fs::write(dir.path().join("gone.list"), "4096").unwrap();
    let mut node = node_of(dir.path(), "");
    for (i, asked) in ["ten", "-1", "1 2", &"1".repeat(65)].iter().enumerate() {
        fs::write(dir.path().join("kv.list"), asked).unwrap();
        run(&mut node, 2.0);
        // The first three give the same message.
        assert_eq!(failures(&mut node), 1 + i as u64 / 3, "{asked}");
    }
    assert_eq!(names(dir.path()), ["gone.list", "kv.list", "kv.toml"]);
    fs::write(dir.path().join("kv.list"), "4096").unwrap();
    run(&mut node, 1.0);
    assert_eq!(names(dir.path()), ["gone.list", "kv.pages", "kv.toml"]);
}

#[test]
fn reading_takes_the_time_of_reads_one_after_another() {
    for (device, seconds) in [
        ("read_us = 100.0, parallelism = 8, iops = 100000", 0.1),
        ("read_us = 100.0, parallelism = 8, iops = 2000", 0.5),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("kv.pages"), "0 400 /kv\n7 1 /a b\n401 599 /kv\n").unwrap();
        let mut node = node_of(dir.path(), &format!("device = {{ {device} }}"));
        run(&mut node, seconds / 2.0);
        let half = reads(&mut node);
        assert!((498..=500).contains(&half), "{half}");
        run(&mut node, seconds / 2.0);
        assert!((999..=1000).contains(&reads(&mut node)));
        assert_eq!(names(dir.path()), ["kv.pages"]);
        run(&mut node, 1.0 - seconds);
        assert_eq!((names(dir.path()), reads(&mut node)), (vec!["kv.warm".into()], 1000));
        let device_us = node.observe().unwrap().device.read_time_us_total as f64;
        assert!((device_us / 1e6 / seconds - 1.0).abs() < 0.01, "it is load: {device_us}");
        run(&mut node, 2.0);
        assert_eq!((reads(&mut node), failures(&mut node)), (1000, 0));
    }
}

/// The service takes 100 us and a read takes 100 us, and nothing is read twice.
#[test]
fn a_tenant_that_runs_waits_for_one_read_more_at_most() {
    let cold = definition("/other", 1 << 30);
    let device = "device = { read_us = 100.0, parallelism = 1, iops = 10000000 }";
    let with_lists = |lists: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("other.toml"), &cold).unwrap();
        for name in lists {
            fs::write(dir.path().join(name), "0 600 /kv\n").unwrap();
        }
        let mut node = node_of(dir.path(), device);
        run(&mut node, 0.15);
        let seen = counters(&mut node, "/other");
        let others = reads(&mut node) - seen.block_reads_total;
        (seen.read_time_us_total as f64 / seen.read_calls_total as f64, others)
    };
    assert_eq!(with_lists(&[]), (200.0, 0));
    let (operation_us, others) = with_lists(&["a.pages", "b.pages", "c.pages"]);
    assert!(operation_us > 200.0 && operation_us <= 300.0, "{operation_us}");
    assert!((300..=1000).contains(&others), "{others}");
}

#[test]
fn a_tenant_moves_with_its_pages_and_misses_none_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for folder in [&a, &b] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(a.join("kv.toml"), definition("/kv", 1000)).unwrap();
    let (mut first, mut second) = (node_of(&a, ""), node_of(&b, ""));
    fs::write(a.join("kv.list"), "4194304").unwrap();
    run(&mut first, 1.0);
    assert_eq!(counters(&mut first, "/kv").misses_total, 1000, "a cold one misses every page");
    fs::rename(a.join("kv.pages"), b.join("kv.pages")).unwrap();
    run(&mut second, 2.0);
    assert_eq!((names(&b), reads(&mut second)), (vec!["kv.warm".into()], 1000));
    fs::rename(a.join("kv.toml"), b.join("kv.toml")).unwrap();
    run(&mut second, 1.0);
    assert_eq!(names(&b), ["kv.toml"]);
    let seen = tenant(&mut second, "/kv");
    assert_eq!((seen.cgroup_id, seen.file_bytes), (1, 1000 * 4096));
    assert_eq!(seen.counters.unwrap().accesses_total, 0, "it only begins");
    run(&mut second, 1.0);
    let seen = counters(&mut second, "/kv");
    assert!(seen.accesses_total > 9000, "{}", seen.accesses_total);
    let counted = [seen.misses_total, seen.block_reads_total, seen.evictions_total];
    assert_eq!((counted, reads(&mut second)), ([0; 3], 1000));
    assert_eq!(failures(&mut first) + failures(&mut second), 0);
}

#[test]
fn the_last_pages_of_a_list_are_kept_if_fewer_fit() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.pages"), "0 1000 /kv\n").unwrap();
    let mut node = node_of(dir.path(), "");
    run(&mut node, 1.0);
    let small = definition("/kv", 400).replace("4194304", "1638400");
    fs::write(dir.path().join("kv.toml"), small.replace("400 }", "400, offset = 600 }")).unwrap();
    run(&mut node, 2.0);
    let seen = counters(&mut node, "/kv");
    assert_eq!((seen.misses_total, seen.evictions_total), (0, 0));
    assert!(seen.accesses_total > 9000);
}

#[test]
fn a_tenant_that_comes_too_early_begins_with_what_was_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.pages"), "0 1000 /kv\n").unwrap();
    let mut node = node_of(dir.path(), &slow(2));
    run(&mut node, 0.5);
    fs::write(dir.path().join("kv.toml"), definition("/kv", 1000)).unwrap();
    run(&mut node, 0.5);
    assert_eq!(names(dir.path()), ["kv.toml"]);
    run(&mut node, 3.0);
    assert_eq!(counters(&mut node, "/kv").misses_total, 500);
    // The device finished the read for the list, which nobody needs any more.
    assert_eq!((reads(&mut node), failures(&mut node)), (500 + 1 + 500, 0));
}

#[test]
fn a_list_that_comes_with_the_definition_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.toml"), definition("/kv", 10)).unwrap();
    fs::write(dir.path().join("kv.pages"), "0 10 /kv\n").unwrap();
    fs::write(dir.path().join("kv.warm"), "0 10 /kv\n").unwrap();
    let mut node = node_of(dir.path(), "");
    run(&mut node, 2.0);
    assert_eq!(names(dir.path()), ["kv.toml"]);
    assert_eq!((counters(&mut node, "/kv").misses_total, reads(&mut node)), (10, 10));
}

#[test]
fn read_pages_are_dropped_when_their_list_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (pages, warm) = (dir.path().join("kv.pages"), dir.path().join("kv.warm"));
    for (read_ms, gone, read) in [(2, &pages, 501), (1, &warm, 1000)] {
        fs::write(&pages, "0 1000 /kv\n").unwrap();
        let mut node = node_of(dir.path(), &slow(read_ms));
        run(&mut node, if gone == &pages { 0.5 } else { 1.0 });
        fs::remove_file(gone).unwrap();
        run(&mut node, 2.5);
        assert_eq!((names(dir.path()).len(), reads(&mut node)), (0, read));
        fs::write(dir.path().join("kv.toml"), definition("/kv", 100)).unwrap();
        run(&mut node, 2.5);
        assert_eq!((counters(&mut node, "/kv").misses_total, failures(&mut node)), (100, 0));
        fs::remove_file(dir.path().join("kv.toml")).unwrap();
    }
}

#[test]
fn an_invalid_list_is_logged_once_and_stops_no_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.pages");
    fs::write(dir.path().join("other.toml"), definition("/other", 10)).unwrap();
    let mut node = node_of(dir.path(), "");
    for (i, text) in ["0 10\n", "0 10 /kv\n0 x /kv\n", "0 2049 /kv\n"].iter().enumerate() {
        fs::write(&path, text).unwrap();
        run(&mut node, 3.0);
        let seen = (failures(&mut node), reads(&mut node), names(dir.path()));
        assert_eq!(seen, (i as u64 + 1, 10, vec!["kv.pages".into(), "other.toml".into()]));
    }
    let seen = counters(&mut node, "/other");
    assert!(seen.accesses_total > 85_000, "{}", seen.accesses_total);
    fs::write(&path, "0 20 /kv\n").unwrap();
    run(&mut node, 2.0);
    assert_eq!((failures(&mut node), reads(&mut node)), (3, 30));
    assert_eq!(names(dir.path()), ["kv.warm", "other.toml"]);
}

#[test]
fn a_list_waits_until_others_leave_it_room() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.pages"), "0 2000 /a\n").unwrap();
    fs::write(dir.path().join("b.pages"), "0 100 /b\n").unwrap();
    let mut node = node_of(dir.path(), "");
    run(&mut node, 3.0);
    assert_eq!((reads(&mut node), failures(&mut node)), (2000, 1));
    assert_eq!(names(dir.path()), ["a.warm", "b.pages"]);
    fs::remove_file(dir.path().join("a.warm")).unwrap();
    run(&mut node, 2.0);
    assert_eq!((reads(&mut node), failures(&mut node)), (2100, 1));
    assert_eq!(names(dir.path()), ["b.warm"]);
}

#[test]
fn another_list_of_the_same_name_is_read_from_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.pages"), "0 10 /kv\n").unwrap();
    let mut node = node_of(dir.path(), "");
    run(&mut node, 1.0);
    fs::write(dir.path().join("kv.pages"), "50 20 /kv\n").unwrap();
    run(&mut node, 2.0);
    assert_eq!((names(dir.path()), reads(&mut node)), (vec!["kv.warm".into()], 30));
    fs::write(dir.path().join("kv.toml"), definition("/kv", 70)).unwrap();
    run(&mut node, 2.0);
    assert_eq!(counters(&mut node, "/kv").misses_total, 50);
}

#[test]
fn a_node_that_was_started_again_reads_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kv.pages"), "0 100 /kv\n").unwrap();
    fs::write(dir.path().join(".other.pages"), "0 100 /other\n").unwrap();
    fs::write(dir.path().join(".other.warm"), "0 100 /other\n").unwrap();
    let mut first = node_of(dir.path(), "");
    run(&mut first, 1.0);
    assert_eq!(names(dir.path()), [".other.pages", ".other.warm", "kv.warm"]);
    let mut second = node_of(dir.path(), "");
    assert_eq!(names(dir.path()), [".other.pages", ".other.warm", "kv.pages"]);
    run(&mut second, 1.0);
    assert_eq!(names(dir.path()), [".other.pages", ".other.warm", "kv.warm"]);
    assert_eq!(reads(&mut second), 100, "what begins with a dot is none");
    fs::write(dir.path().join("kv.toml"), definition("/kv", 100)).unwrap();
    run(&mut second, 2.0);
    assert_eq!((counters(&mut second, "/kv").misses_total, failures(&mut second)), (0, 0));
}

#[test]
fn the_same_files_at_the_same_times_give_the_same() {
    let observations = |ticks: &[f64]| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.pages"), "0 3000 /a\n").unwrap();
        fs::write(dir.path().join("b.pages"), "0 3000 /b\n").unwrap();
        fs::write(dir.path().join("c.toml"), definition("/c", 2000)).unwrap();
        let mut node = virtual_node(&format!("tenants_dir = {:?}\n{TWO}", dir.path()));
        run(&mut node, 0.5);
        fs::write(dir.path().join("b.toml"), definition("/b", 2000)).unwrap();
        ticks.iter().for_each(|&seconds| run(&mut node, seconds));
        let mut seen = node.observe().unwrap();
        seen.tenants.iter_mut().for_each(|t| t.curves_generation = 0);
        (seen, names(dir.path()))
    };
    let first = observations(&[2.0]);
    assert_eq!(first.1, ["a.warm", "b.toml", "c.toml"]);
    assert_eq!(observations(&[0.3, 0.000_001, 1.699_999]), first, "however time is cut");
}
