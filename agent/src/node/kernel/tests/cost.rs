// SPDX-License-Identifier: Apache-2.0

use super::*;

#[test]
fn the_cost_of_a_policy_is_per_access_of_its_tenant_and_named() {
    let bench = Bench::new(&["/a", "/a/x", "/b"]);
    let named = vec!["a/x".into()];
    let mut node = bench.node(true, KernelConfig { named, ..KernelConfig::default() });
    node.apply(&bench.action("/a", Some("lfu"), None));
    let cost = |node: &mut KernelNode, at: usize| {
        node.observe().unwrap().tenants[at].policy_cpu_us_per_access
    };
    assert_eq!(cost(&mut node, 0), None);
    for _ in 0..2 {
        for cgroup in ["/a", "/a/x", "/b"] {
            bench.source.access(bench.fake.fs().id(cgroup).unwrap(), 0..1000);
        }
        node.tick(Duration::from_secs(1)).unwrap();
    }
    // Two milliseconds in a window, in which each tenant had 1000 accesses.
    assert_eq!(cost(&mut node, 0), Some(1.0));
    assert_eq!(
        (cost(&mut node, 1), cost(&mut node, 2)),
        (None, None),
        "of their own they have none"
    );
    node.apply(&bench.action("/a", Some("mru"), None));
    assert_eq!(cost(&mut node, 0), None);
}
