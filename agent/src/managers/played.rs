// SPDX-License-Identifier: Apache-2.0
//! A substitute for systemd on a real bus, for tests.

use super::systemd::Systemd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Lock};
use std::time::Duration;
use tokio::process::{Child, Command};
use zbus::connection::Builder;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, interface};

/// Runtime properties that were set, in order.
pub type Set = Arc<Lock<Vec<(String, bool, u64)>>>;

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    NoSuchUnit(String),
    BadUnitSetting(String),
    #[zbus(error)]
    ZBus(zbus::Error),
}

struct Manager {
    set: Set,
    is_silent: Arc<AtomicBool>,
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl Manager {
    #[zbus(property)]
    fn version(&self) -> &str {
        "252 (played)"
    }
    fn get_unit(&self, name: &str) -> Result<OwnedObjectPath, Refusal> {
        match name {
            "db.service" => Ok(OwnedObjectPath::try_from("/unit/db").unwrap()),
            "slow.service" => Ok(OwnedObjectPath::try_from("/unit/slow").unwrap()),
            "broken.service" => Err(Refusal::BadUnitSetting("out of order".into())),
            _ => Err(Refusal::NoSuchUnit(name.into())),
        }
    }
    async fn load_unit(&self, name: &str) -> Result<OwnedObjectPath, Refusal> {
        while name == "slow.service" && self.is_silent.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
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
            self.set.lock().unwrap().push((format!("{name} {property}"), runtime, value));
        }
    }
}

/// A service with the cgroup that it has.
struct Service(&'static str);

#[interface(name = "org.freedesktop.systemd1.Service")]
impl Service {
    #[zbus(property)]
    fn control_group(&self) -> &str {
        self.0
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

/// A bus, which ends when the returned child is dropped, and its address.
pub fn bus(dir: &Path) -> (Child, String) {
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

/// A substitute for systemd on the bus at `address`, for which it waits. While `is_silent` is true,
/// it does not answer requests about `slow.service`, whose cgroup is gone.
pub async fn player(
    address: &str,
    set: &Set,
    drop_ins: &[&str],
    is_silent: &Arc<AtomicBool>,
) -> Connection {
    let drop_ins: Vec<String> = drop_ins.iter().map(|&drop_in| drop_in.into()).collect();
    for _ in 0..500 {
        let manager = Manager { set: Arc::clone(set), is_silent: Arc::clone(is_silent) };
        let builder = Builder::address(address)
            .serve_at("/org/freedesktop/systemd1", manager)
            .serve_at("/unit/db", Service("/system.slice/db.service"))
            .serve_at("/unit/db", UnitOf(drop_ins.clone()))
            .serve_at("/unit/slow", Service(""))
            .serve_at("/unit/slow", UnitOf(drop_ins.clone()));
        if let Ok(player) = builder.name("org.freedesktop.systemd1").build().await {
            return player;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no bus at {address}");
}

/// A substitute for systemd on a bus of its own, which ends when this value is dropped.
pub struct Played {
    /// The connection to it.
    pub systemd: Arc<Systemd>,
    /// The properties that were set on its units.
    pub set: Set,
    /// Whether it does not answer.
    pub is_silent: Arc<AtomicBool>,
    _kept: (Child, Connection),
}

/// A substitute whose units have these drop-ins.
pub async fn played(dir: &Path, drop_ins: &[&str]) -> Played {
    let (set, is_silent) = (Set::default(), Arc::<AtomicBool>::default());
    let (bus, address) = bus(dir);
    let player = player(&address, &set, drop_ins, &is_silent).await;
    Played { systemd: Arc::new(Systemd::at(&address)), set, is_silent, _kept: (bus, player) }
}
