// SPDX-License-Identifier: Apache-2.0
//! systemd over D-Bus: which cgroups are its units, and properties of those.
//!
//! systemd keeps what it writes to a cgroup as properties of the unit, and writes it again whenever it
//! sees fit, for instance after `daemon-reload`. So the limit of a unit is set as its property
//! `MemoryHigh`, until the next boot, as `systemctl set-property --runtime` does it; systemd writes
//! the file. Cgroups below a unit with `Delegate=yes` are no units: they belong to whoever they are
//! delegated to, and systemd never writes to them.
//!
//! Calls go over the system bus, or over the socket that `systemctl` uses where there is no bus.

use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::sync::Mutex;
use zbus::connection::Builder;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

const SERVICE: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";
const HIGH: &str = "MemoryHigh";
/// What `systemctl set-property --runtime` leaves of it.
const HIGH_DROP_IN: &str = "/50-MemoryHigh.conf";
const PRIVATE_SOCKET: &str = "/run/systemd/private";
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How systemd is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// By the system bus, where `DBUS_SYSTEM_BUS_ADDRESS` or the default says.
    SystemBus,
    /// By a socket of systemd itself, without a bus between.
    Direct(String),
}

/// What of a bus name a call needs, and the connection for it.
#[derive(Debug, Clone)]
struct Bus {
    connection: Connection,
    destination: Option<&'static str>,
}

/// A unit that is a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name, such as `db.service`.
    pub name: String,
    path: OwnedObjectPath,
    interface: &'static str,
}

/// systemd, when it is there.
#[derive(Debug)]
pub struct Systemd {
    addresses: Vec<Address>,
    bus: Mutex<Option<Bus>>,
}

impl Default for Systemd {
    fn default() -> Self {
        let mut addresses = vec![Address::SystemBus];
        if Path::new(PRIVATE_SOCKET).exists() {
            addresses.push(Address::Direct(format!("unix:path={PRIVATE_SOCKET}")));
        }
        Self::at(addresses)
    }
}

impl Systemd {
    /// The one that the first of `addresses` reaches that works.
    #[must_use]
    pub fn at(addresses: Vec<Address>) -> Self {
        Self { addresses, bus: Mutex::new(None) }
    }

    /// Its version; `None` where it is not there.
    pub async fn version(&self) -> Option<String> {
        let bus = self.bus().await.ok()?;
        let version = property(&bus, MANAGER_PATH, MANAGER, "Version").await.ok()?;
        String::try_from(version).ok()
    }

    /// The unit whose cgroup this is; `None` where it is none, or systemd is not there.
    ///
    /// # Errors
    /// What systemd says, or that it does not answer.
    pub async fn unit_of(&self, cgroup: &str) -> zbus::Result<Option<Unit>> {
        let Some((name, interface)) = unit_name(cgroup) else { return Ok(None) };
        let Ok(bus) = self.bus().await else { return Ok(None) };
        let asked = self.load(&bus, "GetUnit", name).await;
        let Some(path) = self.unless_lost(asked).await? else { return Ok(None) };
        let control_group = property(&bus, path.as_str(), interface, "ControlGroup").await?;
        // A unit of the same name elsewhere, as of the manager of a user.
        let is_it = String::try_from(control_group).is_ok_and(|told| told == cgroup);
        Ok(is_it.then(|| Unit { name: name.to_owned(), path, interface }))
    }

    /// Sets the limit of a unit until the next boot; `None` is no limit.
    ///
    /// # Errors
    /// What systemd says, or that it does not answer.
    pub async fn set_memory_high(&self, unit: &str, bytes: Option<u64>) -> zbus::Result<()> {
        let bus = self.bus().await?;
        let value = Variant::from(bytes.unwrap_or(u64::MAX));
        let body = (unit, true, vec![(HIGH, value)]);
        let method = "SetUnitProperties";
        let set = bus
            .connection
            .call_method(bus.destination, MANAGER_PATH, Some(MANAGER), method, &body)
            .await;
        self.unless_lost(set).await.map(drop)
    }

    /// Gives a unit whose cgroup is gone its limit back, where one was set until the next boot: it
    /// would begin with that again. Whether there was one.
    ///
    /// # Errors
    /// What systemd says, or that it does not answer.
    pub async fn forget(&self, cgroup: &str, bytes: Option<u64>) -> zbus::Result<bool> {
        let Some((name, _)) = unit_name(cgroup).filter(|(name, _)| !name.ends_with(".scope"))
        else {
            return Ok(false);
        };
        let Ok(bus) = self.bus().await else { return Ok(false) };
        let loaded = self.load(&bus, "LoadUnit", name).await;
        let Some(path) = self.unless_lost(loaded).await? else { return Ok(false) };
        let drop_ins = property(&bus, path.as_str(), UNIT, "DropInPaths").await?;
        let drop_ins = Vec::<String>::try_from(drop_ins).unwrap_or_default();
        let is_ours = |path: &String| path.starts_with("/run/") && path.ends_with(HIGH_DROP_IN);
        if !drop_ins.iter().any(is_ours) {
            return Ok(false);
        }
        self.set_memory_high(name, bytes).await?;
        Ok(true)
    }

    /// What systemd-oomd does to a unit: its properties `ManagedOOM...` that say `kill`.
    ///
    /// # Errors
    /// What systemd says, or that it does not answer.
    pub async fn managed_oom(&self, unit: &Unit) -> zbus::Result<Vec<&'static str>> {
        let bus = self.bus().await?;
        let mut found = Vec::new();
        for name in ["ManagedOOMSwap", "ManagedOOMMemoryPressure"] {
            let told = property(&bus, unit.path.as_str(), unit.interface, name).await;
            match told.map(String::try_from) {
                Ok(Ok(value)) if value == "kill" => found.push(name),
                // systemd before 247 has no such property.
                Ok(_) | Err(zbus::Error::FDO(_) | zbus::Error::MethodError(..)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn load(
        &self,
        bus: &Bus,
        method: &str,
        name: &str,
    ) -> zbus::Result<Option<OwnedObjectPath>> {
        let (manager, destination) = (Some(MANAGER), bus.destination);
        let asked =
            bus.connection.call_method(destination, MANAGER_PATH, manager, method, &(name,)).await;
        match asked {
            Ok(answer) => answer.body().deserialize().map(Some),
            Err(zbus::Error::MethodError(error, ..)) if error.as_str() == NO_SUCH_UNIT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The connection, made where there is none.
    async fn bus(&self) -> zbus::Result<Bus> {
        let mut known = self.bus.lock().await;
        if let Some(bus) = known.as_ref() {
            return Ok(bus.clone());
        }
        let mut failed = zbus::Error::Address("systemd is not there".into());
        for address in &self.addresses {
            match connect(address).await {
                Ok(bus) => {
                    *known = Some(bus.clone());
                    return Ok(bus);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// A connection that is lost, as after `daemon-reexec`, is made anew the next time.
    async fn unless_lost<T>(&self, result: zbus::Result<T>) -> zbus::Result<T> {
        if let Err(zbus::Error::InputOutput(_)) = &result {
            *self.bus.lock().await = None;
        }
        result
    }
}

async fn connect(address: &Address) -> zbus::Result<Bus> {
    let (builder, destination) = match address {
        Address::SystemBus => (Builder::system(), Some(SERVICE)),
        Address::Direct(address) => (Builder::address(address.as_str()).p2p(), None),
    };
    let building = builder.method_timeout(CALL_TIMEOUT).build();
    let timed = tokio::time::timeout(CALL_TIMEOUT, building).await;
    let connection = timed.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok(Bus { connection, destination })
}

async fn property(
    bus: &Bus,
    path: &str,
    interface: &str,
    name: &str,
) -> zbus::Result<OwnedVariant> {
    let (connection, body) = (&bus.connection, (interface, name));
    let told = connection.call_method(bus.destination, path, Some(PROPERTIES), "Get", &body).await;
    told?.body().deserialize()
}

/// The name that a unit would have whose cgroup this is, and its kind's interface.
pub(super) fn unit_name(cgroup: &str) -> Option<(&str, &'static str)> {
    if cgroup == "/" {
        return Some(("-.slice", "org.freedesktop.systemd1.Slice"));
    }
    let leaf = cgroup.rsplit('/').next()?;
    // systemd puts a '_' before names that would be those of the kernel's files.
    let name = leaf.strip_prefix('_').unwrap_or(leaf);
    let interface = match name.rsplit_once('.')?.1 {
        "service" => "org.freedesktop.systemd1.Service",
        "scope" => "org.freedesktop.systemd1.Scope",
        "slice" => "org.freedesktop.systemd1.Slice",
        _ => return None,
    };
    Some((name, interface))
}

/// Whether a cgroup is named as that of a unit.
#[must_use]
pub fn is_unit(cgroup: &str) -> bool {
    unit_name(cgroup).is_some()
}

/// The cgroups from the top to this one whose names are those of units.
pub fn lineage(cgroup: &str) -> impl Iterator<Item = &str> {
    let ends = cgroup.match_indices('/').map(|(at, _)| at).skip(1).chain([cgroup.len()]);
    let above = ends.map(|end| &cgroup[..end]).filter(|above| is_unit(above));
    std::iter::once("/").chain(above)
}

#[cfg(test)]
#[path = "systemd_tests.rs"]
mod tests;
