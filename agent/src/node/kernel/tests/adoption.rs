// SPDX-License-Identifier: Apache-2.0
//! Tests of the changes that outlive an agent, and of a disk that takes no writes.

use super::*;

#[test]
fn the_next_agent_adopts_and_can_give_back() {
    let bench = Bench::new(&["/a", "/b", "/c"]);
    bench.fake.write("/b", "memory.high", &format!("{}\n", 70 * MIB));
    let (b, id) =
        (bench.action("/b", Some("mru"), Some(100 * MIB)), bench.fake.fs().id("/a").unwrap());
    bench.kernel.set(id, "lfu", None);
    let mut node = bench.start();
    node.apply(&bench.action("/a", Some("mru"), Some(90 * MIB)));
    node.apply(&b);
    assert!(node.adopted().is_empty());
    drop(node);
    let mut node = bench.start();
    assert_eq!(node.adopted(), ["/a", "/b"]);
    let tenants = node.observe().unwrap().tenants;
    assert_eq!((tenants[0].policy.as_str(), tenants[0].limit_bytes), ("mru", 90 * MIB));
    assert_eq!((tenants[1].limit_bytes, tenants[1].initial_limit_bytes), (100 * MIB, 70 * MIB));
    assert!(node.release().iter().all(|result| result.outcome() == Outcome::Applied));
    assert_eq!(bench.fake.read("/a", "memory.high"), "max");
    assert_eq!(bench.fake.read("/b", "memory.high"), (70 * MIB).to_string());
    assert_eq!(
        (bench.kernel.of(id), bench.kernel.of(b.cgroup_id)),
        ("lfu".into(), "default".into())
    );
    assert_eq!(node.observe().unwrap().tenants[0].interference, "");
    assert!(bench.start().adopted().is_empty());
}

#[test]
fn a_tenant_that_is_none_any_more_gets_back_what_it_had() {
    let bench = Bench::new(&["/a"]);
    bench.start().apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
    let config = KernelConfig { exclude: vec!["a".into()], ..KernelConfig::default() };
    let node = bench.node(true, config);
    assert!(node.adopted().is_empty() && node.ledger.entries().is_empty());
    assert_eq!(bench.fake.read("/a", "memory.high"), "max");
    assert_eq!(bench.kernel.of(bench.fake.fs().id("/a").unwrap()), "default");
}

#[test]
fn a_restart_lifts_what_is_below_the_floor() {
    let bench = Bench::new(&["/a"]);
    bench.start().apply(&bench.action("/a", None, Some(64 * MIB)));
    bench.fake.write("/a", "memory.min", &format!("{}\n", 72 * MIB));
    bench.start();
    assert_eq!(bench.fake.read("/a", "memory.high"), (72 * MIB).to_string());
}

#[test]
fn a_setting_that_cannot_be_noted_is_not_changed() {
    let bench = Bench::new(&["/a"]);
    let mut node = bench.start();
    fs::create_dir_all(bench.fake.dir.path().join("state/ledger.part")).unwrap();
    let result = node.apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
    assert!(result.outcome() == Outcome::Failed && result.reason.contains("ledger.part"));
    assert_eq!(bench.fake.read("/a", "memory.high"), "max");
    assert_eq!(node.observe().unwrap().tenants[0].policy, "default");
}

#[test]
fn a_full_disk_does_not_stop_the_node_when_a_tenant_is_removed() {
    let bench = Bench::new(&["/a", "/b"]);
    let mut node = bench.start();
    node.apply(&bench.action("/a", None, Some(100 * MIB)));
    fs::create_dir_all(bench.fake.dir.path().join("state/ledger.part")).unwrap();
    fs::remove_dir_all(bench.fake.fs().dir("/a")).unwrap();
    node.tick(SCAN_INTERVAL).unwrap();
    let observed = node.observe().unwrap();
    assert_eq!(names(&observed), ["/b"]);
    assert_eq!(observed.loss.failed_reads_total, 1);
}

#[test]
fn without_its_ledger_the_next_agent_detaches_policies_and_leaves_limits() {
    let damages: [fn(&Path); 3] = [
        |ledger| fs::write(ledger, "{").unwrap(),
        |ledger| {
            // It cannot be read.
            fs::remove_file(ledger).unwrap();
            fs::create_dir(ledger).unwrap();
        },
        |ledger| {
            // It can be neither parsed nor replaced.
            fs::write(ledger, "{").unwrap();
            fs::create_dir(ledger.with_extension("part")).unwrap();
        },
    ];
    for damage in damages {
        let bench = Bench::new(&["/a"]);
        bench.start().apply(&bench.action("/a", Some("lfu"), Some(100 * MIB)));
        damage(&bench.fake.dir.path().join("state/ledger.json"));
        let mut node = bench.start();
        assert_eq!(bench.kernel.of(bench.fake.fs().id("/a").unwrap()), "default");
        assert_eq!(bench.fake.read("/a", "memory.high"), (100 * MIB).to_string());
        let tenant = node.observe().unwrap().tenants.remove(0);
        assert_eq!((tenant.policy.as_str(), tenant.interference.as_str()), ("default", ""));
        assert!(node.ledger.entries().is_empty());
    }
}

#[test]
fn a_limit_that_the_operator_had_is_not_lifted_to_the_floor() {
    let bench = Bench::new(&["/a"]);
    bench.fake.write("/a", "memory.high", &format!("{}\n", 64 * MIB));
    let mut node = bench.start();
    node.apply(&bench.action("/a", Some("lfu"), None));
    bench.fake.write("/a", "memory.min", &format!("{}\n", 72 * MIB));
    node.observe().unwrap();
    assert_eq!(bench.fake.read("/a", "memory.high"), (64 * MIB).to_string());
    node.apply(&bench.action("/a", None, Some(80 * MIB)));
    node.observe().unwrap();
    assert!(node.release().iter().all(|result| result.outcome() == Outcome::Applied));
    node.observe().unwrap();
    assert_eq!(bench.fake.read("/a", "memory.high"), (64 * MIB).to_string());
}

#[test]
fn a_policy_that_is_gone_is_given_back_as_the_default() {
    let bench = Bench::new(&["/a"]);
    let a = bench.action("/a", Some("lfu"), None);
    bench.kernel.set(a.cgroup_id, "of an older package", None);
    let mut node = bench.start();
    node.apply(&a);
    let results = node.release();
    assert_eq!(results[0].outcome(), Outcome::Applied, "{}", results[0].reason);
    assert_eq!(bench.kernel.of(a.cgroup_id), "default");
}

#[test]
fn a_policy_of_a_cgroup_above_is_not_what_a_tenant_gets_back() {
    for own in ["default", "mru"] {
        let bench = Bench::new(&["/a", "/a/x", "/b", "/b/x"]);
        let named = vec!["a/x".into(), "b/x".into()];
        let mut node = bench.node(true, KernelConfig { named, ..KernelConfig::default() });
        let id = |cgroup: &str| bench.fake.fs().id(cgroup).unwrap();
        // An operator set the policy of `/b` and keeps it, as no action changes `/b` itself.
        bench.kernel.set(id("/b"), "lfu", None);
        bench.kernel.set(id("/a/x"), own, None);
        node.apply(&bench.action("/a", Some("lfu"), None));
        for cgroup in ["/a/x", "/b/x"] {
            let result = node.apply(&bench.action(cgroup, None, Some(100 * MIB)));
            assert_eq!(result.outcome(), Outcome::Applied);
        }
        let told = node.observe().unwrap().tenants;
        let of_x = if own == "default" { "lfu" } else { own };
        let policies: Vec<&str> = told.iter().map(|tenant| tenant.policy.as_str()).collect();
        assert_eq!(policies, ["lfu", of_x, "lfu", "lfu"], "what decides is told");
        let results = node.release();
        assert!(results.iter().all(|result| !result.is_left()), "{results:?}");
        let left = ["/a", "/a/x", "/b", "/b/x"].map(|cgroup| bench.kernel.of(id(cgroup)));
        assert_eq!(left, ["default", own, "lfu", "default"]);
        assert!(node.ledger.entries().is_empty());
    }
}
