// SPDX-License-Identifier: Apache-2.0
//! Tests of limits that another program sets, too: they are reported as conditions, yielded, and
//! not restored.

use super::*;
use crate::wire::condition::Kind;

/// Another program sets the limit twice, with an observation each time. The second time, the limit
/// is yielded.
fn contested(bench: &Bench, node: &mut KernelNode) -> wire::Tenant {
    for bytes in [99_000_320, 90 * MIB] {
        bench.fake.write("/a", "memory.high", &format!("{bytes}\n"));
        node.observe().unwrap();
    }
    node.observe().unwrap().tenants.remove(0)
}

fn kinds(tenant: &wire::Tenant) -> Vec<Kind> {
    tenant.conditions.iter().map(wire::Condition::kind).collect()
}

#[test]
fn a_limit_that_is_rewritten_is_a_condition_until_an_action() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    let action = bench.action("/a", None, Some(100 * MIB));
    node.apply(&action);
    assert_eq!(node.observe().unwrap().tenants[0].conditions, []);
    bench.fake.write("/a", "memory.high", "99000320\n");
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!((kinds(&tenant), tenant.limit_bytes), (vec![Kind::LimitAsserted], 100 * MIB));
    assert!(tenant.conditions[0].message.contains("99000320 by someone else"));
    bench.fake.write("/a", "memory.high", "99000320\n");
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!((kinds(&tenant), tenant.limit_bytes), (vec![Kind::LimitYielded], 99_000_320));
    let first = tenant.conditions[0].clone();
    assert_eq!(tenant.interference, first.message);
    let again = node.observe().unwrap();
    assert_eq!(again.tenants[0].conditions, std::slice::from_ref(&first));
    assert!(first.since_us > 0 && first.since_us <= again.time_us);
    node.apply(&action);
    assert_eq!(node.observe().unwrap().tenants[0].conditions, []);
    let tenant = contested(&bench, &mut node);
    assert!(tenant.conditions[0].since_us > first.since_us, "it was yielded once more");
}

#[test]
fn the_next_agent_leaves_what_was_yielded() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    node.apply(&bench.action("/a", None, Some(100 * MIB)));
    let condition = contested(&bench, &mut node).conditions.remove(0);
    drop(node);
    let mut node = bench.start();
    bench.fake.write("/a", "memory.high", &format!("{}\n", 80 * MIB));
    let tenant = node.observe().unwrap().tenants.remove(0);
    assert_eq!((kinds(&tenant), tenant.limit_bytes), (vec![Kind::LimitYielded], 80 * MIB));
    assert_eq!(tenant.conditions[0].since_us, condition.since_us);
    node.apply(&bench.action("/a", None, Some(100 * MIB)));
    node.observe().unwrap();
    drop(node);
    assert_eq!(bench.start().observe().unwrap().tenants[0].conditions, []);
}

#[test]
fn a_release_leaves_a_limit_of_another_program() {
    let bench = Bench::new(&["/a", "/b"]);
    let mut node = bench.start();
    node.apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
    node.apply(&bench.action("/b", None, Some(100 * MIB)));
    contested(&bench, &mut node);
    let results = node.release();
    assert!(results.iter().all(|result| !result.is_left()), "{results:?}");
    assert_eq!(bench.fake.read("/a", "memory.high"), (90 * MIB).to_string());
    assert_eq!(bench.kernel.of(bench.fake.fs().id("/a").unwrap()), "default");
    assert_eq!(bench.fake.read("/b", "memory.high"), "max");
    assert!(node.ledger.entries().is_empty());
    assert_eq!(node.observe().unwrap().tenants[0].conditions, []);
}

#[test]
fn a_pod_with_a_limit_at_first_is_managed_by_another_program() {
    let pod = "/kubepods/burstable/pod1b4c8d2e-0000-4000-8000-00000000abcd";
    let bench = Bench::new(&[pod, "/a"]);
    for cgroup in [pod, "/a"] {
        bench.fake.write(cgroup, "memory.high", &format!("{}\n", 90 * MIB));
    }
    let matches = vec!["kubepods/burstable/*".into(), "a".into()];
    let mut node = bench.node(true, KernelConfig { matches, ..KernelConfig::default() });
    let tenants = node.observe().unwrap().tenants;
    assert_eq!((tenants[0].cgroup.as_str(), kinds(&tenants[0])), ("/a", Vec::new()));
    assert_eq!(kinds(&tenants[1]), [Kind::OtherManager]);
    assert!(tenants[1].conditions[0].message.contains("MemoryQoS"));
    node.apply(&bench.action(pod, None, Some(100 * MIB)));
    assert_eq!(kinds(&node.observe().unwrap().tenants[1]), [Kind::OtherManager]);
}
