// SPDX-License-Identifier: Apache-2.0
//! Against one that plays systemd on a real bus, for answers that the real one gives rarely; what
//! the real one does is tested in the machine.

use super::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex as Lock};
use tokio::process::{Child, Command};
use zbus::interface;

/// Runtime properties that were set, in their order.
type Set = Arc<Lock<Vec<(String, bool, u64)>>>;

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    NoSuchUnit(String),
    BadUnitSetting(String),
    #[zbus(error)]
    ZBus(zbus::Error),
}

struct Manager(Set);

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Manager {
    #[zbus(property)]
    fn version(&self) -> &str {
        "252 (played)"
    }
    fn get_unit(&self, name: &str) -> Result<OwnedObjectPath, Refusal> {
        match name {
            "db.service" => Ok(OwnedObjectPath::try_from("/unit/db").unwrap()),
            "broken.service" => Err(Refusal::BadUnitSetting("out of order".into())),
            _ => Err(Refusal::NoSuchUnit(name.into())),
        }
    }
    fn load_unit(&self, name: &str) -> Result<OwnedObjectPath, Refusal> {
        self.get_unit(name)
    }
    fn set_unit_properties(
        &self,
        name: &str,
        runtime: bool,
        properties: Vec<(String, OwnedVariant)>,
    ) {
        for (property, value) in properties {
            let value = u64::try_from(value).unwrap_or_default();
            self.0.lock().unwrap().push((format!("{name} {property}"), runtime, value));
        }
    }
}

struct Service;

#[interface(name = "org.freedesktop.systemd1.Service")]
impl Service {
    #[zbus(property)]
    fn control_group(&self) -> &str {
        "/system.slice/db.service"
    }
    #[zbus(property, name = "ManagedOOMMemoryPressure")]
    fn managed_oom_memory_pressure(&self) -> &str {
        "kill"
    }
}

struct UnitOf(Vec<String>);

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl UnitOf {
    #[zbus(property)]
    fn drop_in_paths(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// A bus at the address that is told, which ends with this value.
fn bus(dir: &Path) -> (Child, String) {
    let address = format!("unix:path={}", dir.join("bus").display());
    let config = dir.join("bus.conf");
    let text = format!(
        "<busconfig><type>session</type><listen>{address}</listen><auth>EXTERNAL</auth>\
         <policy context='default'><allow send_destination='*'/><allow eavesdrop='true'/><allow own='*'/></policy>\
         </busconfig>"
    );
    std::fs::write(&config, text).unwrap();
    let mut bus = Command::new("dbus-daemon");
    bus.arg("--nofork").arg(format!("--config-file={}", config.display())).kill_on_drop(true);
    (bus.spawn().expect("dbus-daemon, of the package of that name"), address)
}

/// One that plays systemd on the bus, which it may have to wait for.
async fn player(address: &str, set: &Set, drop_ins: &[&str]) -> Connection {
    let drop_ins: Vec<String> = drop_ins.iter().map(|&drop_in| drop_in.into()).collect();
    for _ in 0..500 {
        let builder = Builder::address(address)
            .serve_at(MANAGER_PATH, Manager(Arc::clone(set)))
            .serve_at("/unit/db", Service)
            .serve_at("/unit/db", UnitOf(drop_ins.clone()));
        if let Ok(player) = builder.name(SERVICE).build().await {
            return player;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no bus at {address}");
}

/// What keeps a played systemd there.
type Kept = (Child, Connection);

/// A systemd on a bus of its own, and what is set of its units.
async fn played(dir: &Path, drop_ins: &[&str]) -> (Systemd, Set, Kept) {
    let set = Set::default();
    let (bus, address) = bus(dir);
    let player = player(&address, &set, drop_ins).await;
    (Systemd::at(&address), set, (bus, player))
}

const DB: &str = "/system.slice/db.service";
const OF_A_USER: &str = "/user.slice/user-1000.slice/user@1000.service/app.slice/db.service";

#[tokio::test]
async fn a_unit_is_found_by_its_cgroup_and_no_other_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (systemd, set, _kept) = played(dir.path(), &[]).await;
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
        let (systemd, set, _kept) = played(dir.path(), &[drop_in]).await;
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
        let _player = player(&address, &set, &[]).await;
        // The first call after a loss may find that out, the next one does not.
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
    let (systemd, set, _kept) = played(dir.path(), &[]).await;
    let settings =
        super::super::Settings { proc: dir.path().into(), systemd: true, sockets: vec![] };
    let managers = super::super::Managers::with(settings, Some(Arc::new(systemd))).unwrap();
    let units = managers.units().unwrap();
    managers.follow([DB].into_iter());
    // By a thread of a runtime, as when the agent begins.
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
