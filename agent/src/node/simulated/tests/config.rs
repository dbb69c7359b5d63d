// SPDX-License-Identifier: Apache-2.0
//! Tests of what a configuration may contain.

use super::*;
use std::path::Path;

fn refused(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("simulation.toml");
    std::fs::write(&path, text).unwrap();
    let message = SimulationConfig::load(&path).unwrap_err().to_string();
    assert!(message.contains("simulation.toml: ") && !message.contains('\n'), "{message}");
    message
}

#[test]
fn bad_values_are_refused_by_one_line_that_names_the_key_and_the_range() {
    for (from, to, words) in [
        ("seed = 7", "sed = 7", "unknown field `sed`"),
        ("seed = 7", "pace = \"fast\"", "unknown variant `fast`"),
        ("seed = 7", "file = \"b.toml\"", "only the section [simulated] may name a file"),
        ("budget_bytes = 67108864", "budget_bytes = 0", "budget_bytes: 0 is not in 4096..="),
        ("budget_bytes = 67108864", "", "budget_bytes: 0 is not in 4096..="),
        ("read_us = 100.0", "read_us = 0.0", "device.read_us: 0 is not in 0.1..="),
        ("read_us = 100.0", "read_us = nan", "device.read_us: NaN is not in 0.1..="),
        ("parallelism = 8", "parallelism = 0", "device.parallelism: 0 is not in 1..="),
        ("seed = 7", "cpus = 10001", "cpus: 10001 is not in 0..=10000"),
        ("iops = 50000", "iops = 0", "device.iops: 0 is not in 1..="),
        ("\"/kv\"", "\"kv\"", "cgroup: not of the form /name"),
        ("\"/kv\"", "\"/a/../b\"", "cgroup: not of the form /name"),
        ("\"/kv\"", "\"/scan\"", "cgroup: two tenants have it at the same time"),
        ("concurrency = 4", "concurrency = 0", "\"/kv\": concurrency: 0 is not in 1..=100000"),
        ("accesses_per_op = 3", "accesses_per_op = 0", "accesses_per_op: 0 is not in 1..="),
        ("service_us = 50.0", "service_us = 0.0", "service_us: 0 is not in 0.1..="),
        ("service_us = 50.0", "", "missing field `service_us`"),
        ("limit_bytes = 8388608", "limit_bytes = 100", "limit_bytes: 100 is not in 2097152..="),
        ("limit_bytes = 8388608", "limit_bytes = 8388609", "not whole pages"),
        ("anon_bytes = 1048576", "floor_bytes = 1", "floor_bytes: 1 is not in 4096..="),
        ("anon_bytes = 1048576", "start_s = -1.0", "start_s: -1 is not in 0..="),
        ("anon_bytes = 1048576", "stop_s = 0.0", "stop_s: 0 is not in 0.001..="),
        ("alpha = 0.9", "alpha = 0.0", "phase 1: source.alpha: 0 is not in 0.01..=10"),
        ("pages = 10000", "pages = 0", "source.pages: 0 is not in 1..="),
        ("pages = 10000", "pages = 10000, more = 1", "unknown field `more`"),
        ("seconds = 1.0", "seconds = 0.0", "phase 1: seconds: 0 is not in 0.001..="),
        ("seconds = 1.0", "passes = 1", "passes: only a trace and a loop have an end"),
        ("seconds = 1.0", "", "needs one of seconds, accesses and passes"),
        ("kind = \"zipf\"", "kind = \"zip\"", "unknown variant `zip`"),
    ] {
        let text = TWO.replacen(from, to, 1);
        assert_ne!(text, TWO, "{from}");
        let message = refused(&text);
        assert!(message.contains(words), "{to}: {message}");
    }
    let endless = format!("{TWO}\nseconds = 1.0");
    assert!(refused(&endless).contains("the last phase goes on for ever"));
    assert!(refused("budget_bytes = 4096").contains("number of tenants: 0 is not in 1..="));
}

#[test]
fn a_section_may_name_a_file_of_its_own_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("two.toml"), TWO).unwrap();
    let agent = dir.path().join("agent.toml");
    let section: SimulationConfig = toml::from_str("file = \"two.toml\"").unwrap();
    let loaded = section.resolve(&agent).unwrap();
    let inline: SimulationConfig = toml::from_str(TWO).unwrap();
    assert_eq!(loaded, inline.resolve(&agent).unwrap());
    let both: SimulationConfig = toml::from_str("file = \"two.toml\"\nseed = 1").unwrap();
    let message = both.resolve(&agent).unwrap_err().to_string();
    assert!(message.contains("nothing else may be given beside it"), "{message}");
    let absent: SimulationConfig = toml::from_str("file = \"none.toml\"").unwrap();
    assert!(absent.resolve(&agent).unwrap_err().to_string().contains("none.toml"));
}

#[test]
fn traces_are_looked_for_beside_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("simulation.toml");
    let text = TWO.replace(
        "{ kind = \"uniform\", pages = 800 }",
        "{ kind = \"mix\", share = 0.5, first = { kind = \"trace\", path = \"a/b.u64\" }, \
         second = { kind = \"loop\", pages = 3 } }",
    );
    std::fs::write(&path, text).unwrap();
    let config = SimulationConfig::load(&path).unwrap();
    let message = SimulatedNode::new(config, curves()).err().unwrap().to_string();
    let expected = dir.path().join("a/b.u64");
    assert!(message.contains(&*expected.to_string_lossy()), "{message}");
}

#[test]
fn the_example_runs() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/simulation.toml"));
    let config = SimulationConfig::load(path).unwrap();
    let names: Vec<String> = config.tenants.iter().map(|t| t.cgroup.clone()).collect();
    let config = SimulationConfig { pace: PaceConfig::Virtual, ..config };
    let mut node = SimulatedNode::new(config, curves()).unwrap();
    run(&mut node, 1.0);
    for name in names {
        let seen = tenant(&mut node, &name);
        let counters = seen.counters.unwrap();
        assert!(counters.read_calls_total > 100 && counters.misses_total > 0, "{name}");
    }
}
