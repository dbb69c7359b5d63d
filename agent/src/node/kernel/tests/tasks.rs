// SPDX-License-Identifier: Apache-2.0
//! Tests of named tasks, as objectives state them.

use super::*;

/// Creates a task of this host.
fn task(bench: &Bench, id: u32, command: &str) {
    let dir = bench.fake.dir.path().join(format!("proc/{id}"));
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("comm"), format!("{command}\n")).unwrap();
}

#[test]
fn named_tasks_are_found_handed_on_and_followed() {
    let bench = Bench::new(&["/a", "/a/inside", "/b"]);
    let task = |id: u32, command: &str| task(&bench, id, command);
    for (id, command) in [(3, "db"), (5, "compaction-1"), (4, "compaction-2")] {
        task(id, command);
    }
    bench.fake.write("/a", "cgroup.threads", "3\n5\n99\n");
    bench.fake.write("/a/inside", "cgroup.threads", "4\n");
    bench.fake.write("/b", "cgroup.threads", "");
    let mut node = bench.start();
    let a = bench.action("/a", Some("get_scan"), None);
    node.apply(&a);
    assert_eq!(bench.kernel.tasks_of(a.cgroup_id), [0; 0], "nobody named any");

    let names = vec!["compaction*".into()];
    let named = wire::NamedTasks { cgroup: "/a".into(), cgroup_id: a.cgroup_id, names };
    node.name_tasks(std::slice::from_ref(&named));
    assert_eq!(bench.kernel.tasks_of(a.cgroup_id), [4, 5]);
    task(6, "compaction-3");
    bench.fake.write("/a", "cgroup.threads", "3\n6\n");
    node.tick(Duration::from_secs(1)).unwrap();
    assert_eq!(bench.kernel.tasks_of(a.cgroup_id), [4, 6]);
    node.apply(&bench.action("/a", Some("lfu"), None));
    node.apply(&a);
    assert_eq!(bench.kernel.tasks_of(a.cgroup_id), [4, 6], "attached with the same");

    node.name_tasks(&[]);
    assert_eq!(bench.kernel.tasks_of(a.cgroup_id), [4, 6], "what runs is left as it is");
    node.apply(&bench.action("/a", Some("lfu"), None));
    node.apply(&a);
    assert_eq!(bench.kernel.tasks_of(a.cgroup_id), [0; 0]);
}

#[test]
fn while_another_process_changes_policies_one_tenant_waits_for_it_and_no_other() {
    let bench = Bench::new(&["/a", "/b", "/c"]);
    let mut node = bench.start();
    let mut named = Vec::new();
    for (id, cgroup) in [(3, "/a"), (4, "/b"), (5, "/c")] {
        task(&bench, id, "compaction");
        bench.fake.write(cgroup, "cgroup.threads", &format!("{id}\n"));
        let cgroup_id = bench.fake.fs().id(cgroup).unwrap();
        let names = vec!["compaction".into()];
        named.push(wire::NamedTasks { cgroup: cgroup.into(), cgroup_id, names });
    }
    *bench.kernel.3.lock().unwrap() = Some(0);
    node.name_tasks(&named);
    assert_eq!(*bench.kernel.3.lock().unwrap(), Some(1));
    node.tick(SCAN_INTERVAL).unwrap();
    assert_eq!(bench.kernel.3.lock().unwrap().take(), Some(2));
    node.tick(SCAN_INTERVAL).unwrap();
    let set: Vec<Vec<u32>> = named.iter().map(|one| bench.kernel.tasks_of(one.cgroup_id)).collect();
    assert_eq!(set, [[3], [4], [5]]);
}
