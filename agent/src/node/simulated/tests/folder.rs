// SPDX-License-Identifier: Apache-2.0
//! Tests of tenants that appear and disappear with the definitions in a folder.

use super::*;
use std::fs;

fn there(node: &mut SimulatedNode) -> Vec<(String, u64)> {
    let seen = node.observe().unwrap();
    seen.tenants.into_iter().map(|t| (t.cgroup, t.cgroup_id)).collect()
}

#[test]
fn a_tenant_moves_with_its_file_and_arrives_with_an_empty_page_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    for folder in [&a, &b] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(a.join("kv.toml"), definition("/kv", 10)).unwrap();
    let (mut first, mut second) = (node_of(&a, ""), node_of(&b, ""));
    assert_eq!(there(&mut first), [("/kv".into(), 1)], "there from the start");
    run(&mut first, 1.5);
    run(&mut second, 1.5);
    assert_eq!(counters(&mut first, "/kv").misses_total, 10);
    fs::rename(a.join("kv.toml"), b.join("kv.toml")).unwrap();
    run(&mut first, 0.4);
    run(&mut second, 0.4);
    assert_eq!(there(&mut first).len(), 1, "a look is taken once per second of node time");
    run(&mut first, 0.2);
    run(&mut second, 0.2);
    assert!(there(&mut first).is_empty());
    assert_eq!(there(&mut second), [("/kv".into(), 1)]);
    let seen = counters(&mut second, "/kv");
    assert_eq!(seen.misses_total, 10, "every page is read again");
    assert!((980..1000).contains(&seen.accesses_total), "{}", seen.accesses_total);
    fs::rename(b.join("kv.toml"), a.join("kv.toml")).unwrap();
    run(&mut first, 1.0);
    assert_eq!(there(&mut first), [("/kv".into(), 2)], "another tenant of the same name");
    assert_eq!(counters(&mut first, "/kv").misses_total, 10);
    assert_eq!(first.observe().unwrap().device.reads_total, 20);
}

#[test]
fn an_invalid_definition_is_logged_once_and_stops_no_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.toml");
    fs::write(&path, definition("/kv", 10)).unwrap();
    let mut node = node_of(dir.path(), "");
    for (i, (text, told)) in [
        ("cgroup =".to_owned(), 1),
        (definition("/kv", 0), 2),
        (definition("/kv", 10).replace("4194304", "41943040"), 3),
        (format!("start_s = 1.0\n{}", definition("/kv", 10)), 4),
        (definition("/kv", 10).replace("\"loop\", pages = 10", "\"trace\", path = \"none\""), 5),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&path, text).unwrap();
        run(&mut node, 3.0);
        assert_eq!((failures(&mut node), there(&mut node)), (told, vec![("/kv".into(), 1)]), "{i}");
    }
    fs::write(&path, definition("/kv", 10)).unwrap();
    run(&mut node, 1.0);
    assert_eq!(there(&mut node), [("/kv".into(), 1)], "as it was: nothing is begun again");
    fs::write(&path, definition("/kv", 20)).unwrap();
    run(&mut node, 1.0);
    assert_eq!((there(&mut node), failures(&mut node)), (vec![("/kv".into(), 2)], 5));
    run(&mut node, 0.5);
    assert_eq!(counters(&mut node, "/kv").misses_total, 20);
}

#[test]
fn a_name_that_is_taken_waits_until_it_is_free() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.toml"), definition("/kv", 10)).unwrap();
    fs::write(dir.path().join("b.toml"), definition("/kv", 20)).unwrap();
    fs::write(dir.path().join(".c.toml"), definition("/hidden", 20)).unwrap();
    let of_config = format!("[[tenant]]\n{}", definition("/fixed", 30));
    let mut node = node_of(dir.path(), &of_config);
    run(&mut node, 2.0);
    assert_eq!(there(&mut node), [("/fixed".into(), 1), ("/kv".into(), 2)]);
    assert_eq!((counters(&mut node, "/kv").misses_total, failures(&mut node)), (10, 1));
    fs::remove_file(dir.path().join("a.toml")).unwrap();
    run(&mut node, 1.0);
    assert_eq!(there(&mut node), [("/fixed".into(), 1), ("/kv".into(), 3)]);
    run(&mut node, 0.5);
    assert_eq!(counters(&mut node, "/kv").misses_total, 20);
    fs::write(dir.path().join("d.toml"), definition("/fixed", 5)).unwrap();
    run(&mut node, 1.0);
    assert_eq!((there(&mut node).len(), failures(&mut node)), (2, 2), "the configuration's stays");
}

#[test]
fn a_removed_folder_stops_no_tenant_and_a_missing_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, aside) = (dir.path().join("a"), dir.path().join("b"));
    let text = format!("budget_bytes = 8388608\ntenants_dir = {folder:?}");
    let config: SimulationConfig = toml::from_str(&text).unwrap();
    let message = SimulatedNode::new(config, curves()).err().unwrap().to_string();
    assert!(message.contains(&*folder.to_string_lossy()), "{message}");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("kv.toml"), definition("/kv", 10)).unwrap();
    let mut node = node_of(&folder, "");
    fs::rename(&folder, &aside).unwrap();
    run(&mut node, 2.0);
    assert_eq!((there(&mut node).len(), failures(&mut node)), (1, 1));
    fs::rename(&aside, &folder).unwrap();
    fs::remove_file(folder.join("kv.toml")).unwrap();
    run(&mut node, 1.0);
    assert_eq!((there(&mut node).len(), failures(&mut node)), (0, 1));
}

#[test]
fn removed_tenants_leave_their_place_to_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.toml");
    let mut node = node_of(dir.path(), "");
    for _ in 0..20 {
        fs::write(&path, definition("/kv", 10)).unwrap();
        run(&mut node, 1.0);
        assert_eq!(there(&mut node).len(), 1);
        fs::remove_file(&path).unwrap();
        run(&mut node, 1.0);
    }
    assert_eq!(node.engine.places(), 1);
}

#[test]
fn the_folder_and_its_traces_are_looked_for_beside_the_file_that_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("tenants");
    fs::create_dir(&folder).unwrap();
    fs::write(dir.path().join("t.u64"), 5_u64.to_le_bytes()).unwrap();
    let traced =
        definition("/kv", 1).replace("\"loop\", pages = 1", "\"trace\", path = \"../t.u64\"");
    fs::write(folder.join("kv.toml"), traced).unwrap();
    let path = dir.path().join("simulation.toml");
    fs::write(&path, "budget_bytes = 8388608\npace = \"virtual\"\ntenants_dir = \"tenants\"\n")
        .unwrap();
    let config = SimulationConfig::load(&path).unwrap();
    let mut node = SimulatedNode::new(config, curves()).unwrap();
    run(&mut node, 1.0);
    assert_eq!(counters(&mut node, "/kv").misses_total, 1);
}
