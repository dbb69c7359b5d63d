// SPDX-License-Identifier: Apache-2.0
//! Tests of named tasks: policies that treat them apart are candidates, and get them when they are
//! attached.

use super::*;

/// A tenant with three tasks, of which 22 scans beside the lookups. It is simulated on a share of
/// the pages, large enough to distinguish `get_scan` with this task from the default: 0.47 and 0.54
/// in full simulation.
fn node() -> SimulatedNode {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../experiments/recorded_traces/rocksdb_get_scan.cptrace.zst"
    );
    let text = format!(
        r#"
        budget_bytes = 67108864
        [[tenant]]
        cgroup = "/db"
        service_us = 100.0
        limit_bytes = 6291456
        anon_bytes = 2097152
        phase = [{{ source = {{ kind = "trace", path = "{path}" }} }}]
        "#
    );
    let config: SimulationConfig = toml::from_str(&text).unwrap();
    let config = SimulationConfig { pace: PaceConfig::Virtual, ..config };
    SimulatedNode::new(config, CurvesConfig { sizes_pages: curves().sizes_pages, ..<_>::default() })
        .unwrap()
}

fn name(node: &mut SimulatedNode, names: &[&str]) {
    let names = names.iter().map(|&name| name.into()).collect();
    let cgroup_id = tenant(node, "/db").cgroup_id;
    node.name_tasks(&[wire::NamedTasks { cgroup: "/db".into(), cgroup_id, names }]);
}

/// The misses that a policy would have had since totals began, as a share of all accesses.
fn misses(seen: &wire::Tenant, policy: &str) -> Option<f64> {
    let told = seen.counterfactuals.as_ref().unwrap();
    let groups = told.accesses_total.len();
    let row = told.policies.iter().position(|name| name == policy)?;
    let misses: f64 = told.misses_total[row * groups..][..groups].iter().sum();
    Some(misses / told.accesses_total.iter().sum::<f64>())
}

#[test]
fn a_policy_for_named_tasks_is_a_candidate_of_their_tenant_and_does_as_simulated() {
    let mut node = node();
    run(&mut node, 1.0);
    assert!(misses(&tenant(&mut node, "/db"), "get_scan").is_none());
    name(&mut node, &["22"]);
    for _ in 0..40 {
        run(&mut node, 1.0);
        tenant(&mut node, "/db");
    }
    let seen = tenant(&mut node, "/db");
    let [get_scan, default] = ["get_scan", "default"].map(|name| misses(&seen, name).unwrap());
    assert!(get_scan < default - 0.03, "{get_scan} {default}");

    let action = wire::Action {
        cgroup: "/db".into(),
        cgroup_id: seen.cgroup_id,
        policy: Some("get_scan".into()),
        ..Default::default()
    };
    node.apply(&action);
    run(&mut node, 10.0);
    let before = tenant(&mut node, "/db");
    run(&mut node, 30.0);
    let after = tenant(&mut node, "/db");
    let counted = |seen: &wire::Tenant| {
        let counters = seen.counters.as_ref().unwrap();
        (counters.misses_total as f64, counters.accesses_total as f64)
    };
    let ((m0, a0), (m1, a1)) = (counted(&before), counted(&after));
    let measured = (m1 - m0) / (a1 - a0);
    assert!((measured - 0.47).abs() < 0.03, "{measured}");

    node.name_tasks(&[]);
    node.apply(&wire::Action { policy: Some("default".into()), ..action });
    run(&mut node, 1.0);
    assert!(misses(&tenant(&mut node, "/db"), "get_scan").is_none());
}
