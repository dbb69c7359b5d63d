// SPDX-License-Identifier: Apache-2.0
//! Tests against a substitute for systemd on a real bus, for answers that the real one rarely
//! gives. Tests in the virtual machine cover the real one.

use super::super::played::{Played, Set, bus, played, player};
use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const DB: &str = "/system.slice/db.service";
const OF_A_USER: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice/db.service";

#[tokio::test]
async fn a_unit_is_found_by_its_cgroup_and_no_other_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let Played { systemd, set, .. } = &played(dir.path(), &[]).await;
    assert_eq!(systemd.version().await.unwrap().as_deref(), Some("252 (played)"));
    let unit = systemd.unit_of(DB).await.unwrap().unwrap();
    assert_eq!(unit.name, "db.service");
    assert_eq!(systemd.unit_of(OF_A_USER).await.unwrap(), None);
    assert_eq!(systemd.unit_of("/system.slice/db.service/child").await.unwrap(), None);
    assert_eq!(systemd.managed_oom(&unit).await.unwrap(), ["ManagedOOMMemoryPressure"]);
    assert!(systemd.unit_of("/system.slice/broken.service").await.is_err());
    systemd.set_memory_high(&unit.name, Some(4096)).await.unwrap();
    systemd.set_memory_high(&unit.name, None).await.unwrap();
    let expected = [4096, u64::MAX].map(|value| ("db.service MemoryHigh".to_owned(), true, value));
    assert_eq!(*set.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_unit_that_is_gone_gets_back_only_what_was_set_until_the_next_boot() {
    for (drop_in, is_ours) in [
        ("/run/systemd/system.control/db.service.d/50-MemoryHigh.conf", true),
        ("/etc/systemd/system.control/db.service.d/50-MemoryHigh.conf", false),
        ("/run/systemd/system.control/db.service.d/50-MemoryMax.conf", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let Played { systemd, set, .. } = &played(dir.path(), &[drop_in]).await;
        assert_eq!(systemd.forget(DB, Some(8192)).await.unwrap(), is_ours, "{drop_in}");
        assert_eq!(set.lock().unwrap().len(), usize::from(is_ours));
        assert!(!systemd.forget("/a.slice/run-1.scope", Some(8192)).await.unwrap());
        assert!(!systemd.forget(OF_A_USER, Some(8192)).await.unwrap(), "{drop_in}");
        assert_eq!(set.lock().unwrap().len(), usize::from(is_ours));
    }
}

#[tokio::test]
async fn a_bus_that_was_lost_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:path={}", dir.path().join("bus").display());
    let systemd = Systemd::at(&address);
    assert_eq!(systemd.version().await.unwrap(), None, "there is no bus yet");
    for _ in 0..2 {
        let (mut bus, address) = bus(dir.path());
        let set = Set::default();
        let _player = player(&address, &set, &[], &Arc::default()).await;
        // The first call after a lost connection may fail; the next one makes another connection.
        let mut found = systemd.unit_of(DB).await;
        if found.is_err() {
            found = systemd.unit_of(DB).await;
        }
        let unit = found.unwrap().unwrap();
        systemd.set_memory_high(&unit.name, Some(4096)).await.unwrap();
        assert_eq!(set.lock().unwrap().len(), 1);
        bus.kill().await.unwrap();
    }
}

#[tokio::test]
async fn without_a_bus_or_without_systemd_on_it_nothing_is_a_unit() {
    let dir = tempfile::tempdir().unwrap();
    let (_bus, address) = bus(dir.path());
    while !dir.path().join("bus").exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for address in [address, format!("unix:path={}", dir.path().join("nope").display())] {
        let systemd = Systemd::at(&address);
        assert_eq!(systemd.version().await.unwrap(), None);
        assert_eq!(systemd.unit_of(DB).await.unwrap(), None);
        assert!(!systemd.forget(DB, None).await.unwrap());
        assert!(systemd.set_memory_high("db.service", None).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_units_go_through_systemd_and_others_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let Played { systemd, set, .. } = &played(dir.path(), &[]).await;
    let settings =
        super::super::Settings { proc: dir.path().into(), systemd: true, sockets: vec![] };
    let managers = super::super::Managers::with(settings, Some(Arc::clone(systemd))).unwrap();
    let units = managers.units().unwrap();
    managers.follow([DB].into_iter());
    // A thread of an async runtime makes these calls, as when the agent starts.
    let was_set = [DB, "/jobs/a"].map(|cgroup| units.set_memory_high(cgroup, Some(4096)).unwrap());
    assert_eq!(was_set, [true, false]);
    assert_eq!(set.lock().unwrap().len(), 1);
    let mut findings = BTreeMap::new();
    for _ in 0..500 {
        findings.clone_from(&managers.seen().tenants);
        if findings.get(DB).is_some_and(|of| !of.findings.is_empty()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        findings[DB].findings[0].message,
        "systemd-oomd may kill it: ManagedOOMMemoryPressure=kill of db.service"
    );
}

#[test]
fn only_cgroups_that_are_named_as_units_may_be_some() {
    let service = "org.freedesktop.systemd1.Service";
    assert_eq!(unit_name("/system.slice/db.service"), Some(("db.service", service)));
    assert_eq!(unit_name("/system.slice/_memory.service"), Some(("memory.service", service)));
    let scope = "org.freedesktop.systemd1.Scope";
    let container = "/kubepods.slice/cri-containerd-1f.scope";
    assert_eq!(unit_name(container), Some(("cri-containerd-1f.scope", scope)));
    for other in ["", "/jobs/a", "/system.slice/db.service/worker", "/a.mount"] {
        assert_eq!(unit_name(other), None, "{other}");
    }
}

#[test]
fn the_units_above_a_cgroup_are_those_that_it_is_in() {
    let found: Vec<&str> = lineage("/a.slice/a-b.slice/c.service/worker").collect();
    assert_eq!(found, ["/", "/a.slice", "/a.slice/a-b.slice", "/a.slice/a-b.slice/c.service"]);
    assert_eq!(lineage("/jobs/x").collect::<Vec<_>>(), ["/"]);
}
