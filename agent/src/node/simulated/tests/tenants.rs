// SPDX-License-Identifier: Apache-2.0
//! Tests of tenants that appear and disappear, of phases, curves and failures.

use super::*;
use crate::wire::result::Outcome;

#[test]
fn tenants_appear_and_disappear_and_come_back_as_others() {
    let tenant = |start: f64, stop: f64| {
        format!(
            r#"
            [[tenant]]
            cgroup = "/a"
            service_us = 100.0
            limit_bytes = 4194304
            start_s = {start:?}
            stop_s = {stop:?}
            phase = [{{ source = {{ kind = "loop", pages = 10 }} }}]
            "#
        )
    };
    let text = format!("budget_bytes = 8388608\n{}{}", tenant(1.0, 2.0), tenant(2.0, 3.0));
    let mut node = virtual_node(&text);
    let ids = |node: &mut SimulatedNode| -> Vec<u64> {
        node.observe().unwrap().tenants.iter().map(|t| t.cgroup_id).collect()
    };
    run(&mut node, 0.5);
    assert!(ids(&mut node).is_empty());
    run(&mut node, 1.0);
    assert_eq!(ids(&mut node), [1]);
    let first = counters(&mut node, "/a");
    assert_eq!((first.misses_total, first.accesses_total), (10, 4_991), "100 us but for 10 reads");
    run(&mut node, 1.0);
    assert_eq!(ids(&mut node), [2]);
    assert!(counters(&mut node, "/a").accesses_total < 5_000, "counts start again");
    let old = wire::Action { cgroup: "/a".into(), cgroup_id: 1, ..Default::default() };
    assert_eq!(node.apply(&old).outcome(), Outcome::Refused);
    run(&mut node, 1.0);
    assert!(ids(&mut node).is_empty());
    assert_eq!(node.apply(&old).outcome(), Outcome::Gone);
    assert_eq!(node.observe().unwrap().device.reads_total, 20);
}

#[test]
fn a_phase_changes_at_its_time() {
    let mut node = virtual_node(TWO);
    run(&mut node, 0.995);
    // 800 pages fit; they are in the cache after their first access.
    assert_eq!(counters(&mut node, "/scan").misses_total, 800);
    run(&mut node, 0.01);
    assert!(counters(&mut node, "/scan").misses_total > 800, "the loop over others has begun");
}

#[test]
fn curves_come_and_are_trusted_once_they_agree_with_what_is_measured() {
    let mut node = virtual_node(TWO);
    let seen = tenant(&mut node, "/kv");
    assert_eq!((seen.trusted, seen.curves_generation, seen.curves), (false, 0, None));
    assert!(seen.distrust.starts_with("warming up"), "{}", seen.distrust);
    for _ in 0..20 {
        run(&mut node, 1.0);
        tenant(&mut node, "/kv");
    }
    let seen = tenant(&mut node, "/kv");
    assert!(seen.trusted, "{}", seen.distrust);
    let curves = seen.curves.unwrap();
    assert_eq!(curves.generation, seen.curves_generation);
    assert_eq!(curves.miss_ratio.len(), curves.policies.len() * curves.sizes_bytes.len());
    assert!(curves.policies.contains(&"default".into()));
    let again = tenant(&mut node, "/kv");
    assert_eq!(again.curves_generation, curves.generation, "nothing happened since");
}

#[test]
fn a_trace_that_breaks_stops_its_tenant_alone_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let good: Vec<u8> = (0..200_000u64).flat_map(u64::to_le_bytes).collect();
    std::fs::write(dir.path().join("t.u64"), [&good[..], &[1, 2, 3]].concat()).unwrap();
    let text = format!(
        "{TWO}\n[[tenant]]\ncgroup = \"/trace\"\nservice_us = 1.0\nconcurrency = 64\n\
         limit_bytes = 4194304\nphase = [{{ source = {{ kind = \"trace\", path = \"t.u64\" }} }}]"
    );
    let path = dir.path().join("simulation.toml");
    std::fs::write(&path, text).unwrap();
    let config = SimulationConfig::load(&path).unwrap();
    let config = SimulationConfig { pace: PaceConfig::Virtual, ..config };
    let mut node = SimulatedNode::new(config, curves()).unwrap();
    run(&mut node, 8.0);
    let seen = node.observe().unwrap();
    let broken = &seen.tenants[2];
    assert!(!broken.trusted && broken.distrust.starts_with("stopped: "), "{}", broken.distrust);
    assert!(broken.distrust.contains("t.u64"), "{}", broken.distrust);
    assert_eq!(seen.loss.failed_reads_total, 1);
    let last = broken.counters.clone().unwrap();
    run(&mut node, 0.1);
    let settled = counters(&mut node, "/trace");
    assert!(settled.accesses_total == last.accesses_total);
    assert_eq!(settled.misses_total, settled.block_reads_total, "every read has ended");
    let before = counters(&mut node, "/kv");
    run(&mut node, 0.5);
    assert!(counters(&mut node, "/kv").accesses_total > before.accesses_total);
}

#[test]
fn a_tenant_that_stops_counts_once_whatever_stopped_it() {
    let defined = |cgroup: &str, stop_s: f64| {
        format!(
            r#"
            [[tenant]]
            cgroup = "{cgroup}"
            service_us = 100.0
            limit_bytes = 4194304
            stop_s = {stop_s:?}
            phase = [{{ source = {{ kind = "loop", pages = 10 }} }}]
            "#
        )
    };
    let tenants =
        [defined("/resized", 2.0), defined("/learnt", 9.0), defined("/sound", 9.0)].concat();
    let mut node = virtual_node(&format!("budget_bytes = 16777216\n{tenants}"));
    let find = |node: &mut SimulatedNode, cgroup: &str, with: fn(&mut tenant::Tenant)| {
        node.engine.tenants().filter(|tenant| tenant.cgroup == cgroup).for_each(with);
    };
    run(&mut node, 0.5);
    // No simulated cache is as large as this, so no step of this limit succeeds.
    find(&mut node, "/resized", |tenant| {
        (tenant.limit.now_bytes, tenant.limit.target_bytes) = (1 << 60, 1 << 59);
    });
    run(&mut node, 0.5);
    assert_eq!(failures(&mut node), 1);
    let stopped = tenant(&mut node, "/resized").distrust;
    assert!(
        stopped.starts_with("stopped: ") && stopped.contains("pages are not in 1..="),
        "{stopped}"
    );
    find(&mut node, "/learnt", |tenant| {
        tenant.stop(&Error::Node("its curves".into()));
        tenant.stop(&Error::Node("its tasks".into()));
    });
    assert_eq!(failures(&mut node), 2);
    let stopped = tenant(&mut node, "/learnt").distrust;
    assert!(stopped.contains("its curves") && !stopped.contains("its tasks"), "{stopped}");
    run(&mut node, 2.0);
    assert_eq!(node.observe().unwrap().tenants.len(), 2);
    assert_eq!(failures(&mut node), 2, "a tenant that is gone counts, too");
}
