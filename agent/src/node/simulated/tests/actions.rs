// SPDX-License-Identifier: Apache-2.0
//! Tests of plans: policies, limits, refusals, release.

use super::*;
use crate::wire::result::Outcome;

const MIB: u64 = 1 << 20;

fn action(node: &mut SimulatedNode, cgroup: &str) -> wire::Action {
    let cgroup_id = tenant(node, cgroup).cgroup_id;
    wire::Action { cgroup: cgroup.into(), cgroup_id, ..Default::default() }
}

fn set_limit(node: &mut SimulatedNode, cgroup: &str, bytes: u64) -> wire::Result {
    let action = wire::Action { limit_bytes: Some(bytes), ..action(node, cgroup) };
    node.apply(&action)
}

fn set_policy(node: &mut SimulatedNode, cgroup: &str, policy: &str) -> wire::Result {
    let action = wire::Action { policy: Some(policy.into()), ..action(node, cgroup) };
    node.apply(&action)
}

/// The miss ratio in the next `seconds`.
fn miss_ratio(node: &mut SimulatedNode, cgroup: &str, seconds: f64) -> f64 {
    let before = counters(node, cgroup);
    run(node, seconds);
    let after = counters(node, cgroup);
    (after.misses_total - before.misses_total) as f64
        / (after.accesses_total - before.accesses_total) as f64
}

#[test]
fn a_swap_keeps_what_is_cached_and_thereby_the_miss_ratio() {
    let mut node = virtual_node(TWO);
    run(&mut node, 2.0);
    let applied = set_policy(&mut node, "/kv", "lru");
    assert_eq!((applied.outcome(), applied.policy.as_str()), (Outcome::Applied, "lru"));
    run(&mut node, 2.0);
    let before = miss_ratio(&mut node, "/kv", 1.0);
    for policy in ["fifo", "lru"] {
        let file_bytes = tenant(&mut node, "/kv").file_bytes;
        assert_eq!(set_policy(&mut node, "/kv", policy).outcome(), Outcome::Applied);
        assert_eq!(tenant(&mut node, "/kv").file_bytes, file_bytes);
    }
    // The cache went to fifo and back, and was adopted from lists in the order of use.
    let after = miss_ratio(&mut node, "/kv", 0.1);
    assert!((after - before).abs() < 0.03, "{before} {after}");
    assert_eq!(set_policy(&mut node, "/kv", "lru").outcome(), Outcome::Unchanged);
    assert_eq!(node.observe().unwrap().loss.dropped_events_total, 0);
}

#[test]
fn another_policy_changes_the_miss_ratio_of_a_loop() {
    let loop_alone = "kind = \"loop\", pages = 2000, offset = 1000000";
    let mut node = virtual_node(&TWO.replace("kind = \"uniform\", pages = 800", loop_alone));
    run(&mut node, 2.0);
    let default = miss_ratio(&mut node, "/scan", 1.0);
    assert!(default > 0.99, "{default}");
    set_policy(&mut node, "/scan", "mru");
    run(&mut node, 1.0);
    let mru = miss_ratio(&mut node, "/scan", 1.0);
    // 1,024 of 2,000 pages fit.
    assert!((0.45..0.60).contains(&mru), "{mru}");
}

#[test]
fn a_limit_rises_at_once_and_falls_in_steps() {
    let text = TWO.replace("seed = 7", "seed = 7\nreclaim_bytes_per_second = 10485760");
    let mut node = virtual_node(&text);
    run(&mut node, 1.0);
    let applied = set_limit(&mut node, "/kv", 20 * MIB);
    assert_eq!((applied.outcome(), applied.limit_bytes), (Outcome::Applied, 20 * MIB));
    run(&mut node, 3.0);
    let full = tenant(&mut node, "/kv");
    assert!(full.current_bytes > 15 * MIB, "{}", full.current_bytes);
    assert_eq!(set_limit(&mut node, "/kv", 4 * MIB).outcome(), Outcome::Started);
    let mut last = full.current_bytes;
    for _ in 0..20 {
        run(&mut node, 0.1);
        let seen = tenant(&mut node, "/kv");
        assert_eq!(seen.target_limit_bytes, 4 * MIB);
        assert!(seen.current_bytes <= seen.limit_bytes && seen.limit_bytes >= 4 * MIB);
        assert!(last.saturating_sub(seen.limit_bytes) <= MIB + 4096, "a megabyte in 100 ms");
        last = seen.limit_bytes;
    }
    let seen = tenant(&mut node, "/kv");
    assert_eq!((seen.limit_bytes, seen.initial_limit_bytes), (4 * MIB, 8 * MIB));
    assert_eq!(set_limit(&mut node, "/kv", 4 * MIB).outcome(), Outcome::Unchanged);
}

#[test]
fn invalid_actions_are_refused_with_the_reason_and_change_nothing() {
    let mut node = virtual_node(TWO);
    run(&mut node, 0.1);
    let before = node.observe().unwrap();
    let mut refused = |change: &dyn Fn(&mut wire::Action)| {
        let mut wanted = action(&mut node, "/kv");
        change(&mut wanted);
        let result = node.apply(&wanted);
        assert_eq!(result.outcome(), Outcome::Refused);
        assert_eq!((result.policy.as_str(), result.limit_bytes), ("default", 8 * MIB));
        result.reason
    };
    let floor = refused(&|a| {
        a.limit_bytes = Some(2 * MIB - 4096);
        a.policy = Some("lru".into());
    });
    assert!(floor.contains("the floor of 2097152"), "{floor}");
    let id = refused(&|a| a.cgroup_id += 100);
    assert!(id.contains("its id is 1, not 101"), "{id}");
    for name in ["nope", "kernel_lru"] {
        let policy = refused(&|a| a.policy = Some(name.into()));
        assert_eq!(policy, format!("policy: {name:?} cannot be attached here"));
    }
    assert_eq!(node.observe().unwrap().tenants[0].policy, before.tenants[0].policy);
    let gone = node.apply(&wire::Action { cgroup: "/nobody".into(), ..Default::default() });
    assert_eq!(gone.outcome(), Outcome::Gone);
}

#[test]
fn release_puts_everything_back() {
    let mut node = virtual_node(TWO);
    run(&mut node, 1.0);
    set_policy(&mut node, "/kv", "s3fifo");
    set_limit(&mut node, "/kv", 12 * MIB);
    run(&mut node, 1.0);
    let results = node.release();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0].outcome(), Outcome::Started);
    assert_eq!(results[1].outcome(), Outcome::Unchanged);
    run(&mut node, 1.0);
    let seen = tenant(&mut node, "/kv");
    assert_eq!((seen.policy.as_str(), seen.limit_bytes), ("default", 8 * MIB));
}

#[test]
fn every_policy_that_it_claims_can_be_attached() {
    let mut node = virtual_node(TWO);
    let identity = node.identity();
    assert!(identity.policies.len() > 10 && identity.policies.is_sorted());
    for policy in &identity.policies {
        assert_eq!(set_policy(&mut node, "/kv", policy).outcome(), Outcome::Applied, "{policy}");
        run(&mut node, 0.05);
    }
    assert_eq!(set_policy(&mut node, "/kv", "default").outcome(), Outcome::Applied);
}
