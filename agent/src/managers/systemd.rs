// SPDX-License-Identifier: Apache-2.0
//! systemd over D-Bus: which cgroups are its units, and the properties of those.
//!
//! systemd stores what it writes to a cgroup as properties of the unit, and writes it again at
//! times of its own, for instance after `daemon-reload`. The limit of a unit is therefore set as
//! its property `MemoryHigh`, until the next boot, as `systemctl set-property --runtime` does;
//! systemd writes the file. Cgroups below a unit with `Delegate=yes` are not units: they belong to
//! the program to which they are delegated, and systemd never writes to them.
//!
//! Calls use the system bus. systemd's own socket, which `systemctl` uses if there is no bus, is
//! not an interface for other programs, and its messages have a sender that the D-Bus specification
//! does not allow.

use serde::Serialize;
use std::io;
use std::time::Duration;
use tokio::sync::Mutex;
use zbus::connection::Builder;
use zbus::{Connection, DynamicType, Message, OwnedObjectPath, OwnedVariant, Variant, fdo};

const SERVICE: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";
const HIGH: &str = "MemoryHigh";
/// The drop-in that `systemctl set-property --runtime` leaves for the limit.
const HIGH_DROP_IN: &str = "/50-MemoryHigh.conf";
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// A unit that is a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its name, such as `db.service`.
    pub name: String,
    path: OwnedObjectPath,
    interface: &'static str,
}

/// systemd, if it is running.
#[derive(Debug, Default)]
pub struct Systemd {
    /// Address of the bus; `None` means the system's.
    address: Option<String>,
    bus: Mutex<Option<Connection>>,
}

impl Systemd {
    /// The systemd on the bus at `address`.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self { address: Some(address.into()), bus: Mutex::default() }
    }

    /// Its version; `None` if it is not running.
    ///
    /// # Errors
    /// Returns its error, or an error if it does not answer.
    pub async fn version(&self) -> zbus::Result<Option<String>> {
        let told = match self.bus().await {
            Ok(bus) => property(&bus, MANAGER_PATH, MANAGER, "Version").await,
            Err(error) => Err(error),
        };
        unless_absent(told.and_then(String::try_from))
    }

    /// The unit whose cgroup this is; `None` if there is none, or if systemd is not running.
    ///
    /// # Errors
    /// Returns systemd's error, or an error if it does not answer.
    pub async fn unit_of(&self, cgroup: &str) -> zbus::Result<Option<Unit>> {
        let Some((name, interface)) = unit_name(cgroup) else { return Ok(None) };
        let Some(path) = self.load("GetUnit", name).await? else { return Ok(None) };
        let unit = Unit { name: name.to_owned(), path, interface };
        // There may be a unit of the same name elsewhere, such as one of a user's manager.
        let is_it = self.cgroup_of(&unit).await? == cgroup;
        Ok(is_it.then_some(unit))
    }

    /// Sets the limit of a unit until the next boot; `None` means no limit.
    ///
    /// # Errors
    /// Returns systemd's error, or an error if it does not answer.
    pub async fn set_memory_high(&self, unit: &str, bytes: Option<u64>) -> zbus::Result<()> {
        let bus = self.bus().await?;
        let value = Variant::from(bytes.unwrap_or(u64::MAX));
        let body = (unit, true, vec![(HIGH, value)]);
        let method = "SetUnitProperties";
        let set = call(&bus, MANAGER_PATH, MANAGER, method, &body).await;
        self.unless_lost(set).await.map(drop)
    }

    /// Sets the limit of a unit whose cgroup is gone to `bytes`, if a limit was set until the next
    /// boot: the unit would start with that one again. Returns whether there was one.
    ///
    /// # Errors
    /// Returns systemd's error, or an error if it does not answer.
    pub async fn forget(&self, cgroup: &str, bytes: Option<u64>) -> zbus::Result<bool> {
        let found = unit_name(cgroup).filter(|(name, _)| !name.ends_with(".scope"));
        let Some((name, interface)) = found else { return Ok(false) };
        let Some(path) = self.load("LoadUnit", name).await? else { return Ok(false) };
        let unit = Unit { name: name.to_owned(), path, interface };
        let now = self.cgroup_of(&unit).await?;
        if !now.is_empty() && now != cgroup {
            // The unit belongs to another cgroup whose name has the same end.
            return Ok(false);
        }
        let bus = self.bus().await?;
        let drop_ins = property(&bus, unit.path.as_str(), UNIT, "DropInPaths").await?;
        let drop_ins = Vec::<String>::try_from(drop_ins).unwrap_or_default();
        let is_ours = |path: &String| path.starts_with("/run/") && path.ends_with(HIGH_DROP_IN);
        if !drop_ins.iter().any(is_ours) {
            return Ok(false);
        }
        self.set_memory_high(name, bytes).await?;
        Ok(true)
    }

    /// What systemd-oomd does to a unit: its properties `ManagedOOM...` whose value is `kill`.
    ///
    /// # Errors
    /// Returns systemd's error, or an error if it does not answer.
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

    /// The present cgroup of a unit; empty if it has none.
    async fn cgroup_of(&self, unit: &Unit) -> zbus::Result<String> {
        let bus = self.bus().await?;
        let told = property(&bus, unit.path.as_str(), unit.interface, "ControlGroup").await?;
        Ok(String::try_from(told).unwrap_or_default())
    }

    /// The object of a unit; `None` if there is none, or if systemd is not running.
    async fn load(&self, method: &str, name: &str) -> zbus::Result<Option<OwnedObjectPath>> {
        let asked = match self.bus().await {
            Ok(bus) => call(&bus, MANAGER_PATH, MANAGER, method, &(name,)).await,
            Err(error) => Err(error),
        };
        match unless_absent(self.unless_lost(asked).await) {
            Ok(answer) => answer.map(|answer| answer.body().deserialize()).transpose(),
            Err(zbus::Error::MethodError(error, ..)) if error.as_str() == NO_SUCH_UNIT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The connection, which is made if there is none.
    async fn bus(&self) -> zbus::Result<Connection> {
        let mut known = self.bus.lock().await;
        if let Some(bus) = known.as_ref() {
            return Ok(bus.clone());
        }
        let builder = match &self.address {
            Some(address) => Builder::address(address.as_str()),
            None => Builder::system(),
        };
        let building = builder.method_timeout(CALL_TIMEOUT).build();
        let timed = tokio::time::timeout(CALL_TIMEOUT, building).await;
        let bus = timed.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        *known = Some(bus.clone());
        Ok(bus)
    }

    /// Drops a connection that is lost, so that the next call makes another.
    async fn unless_lost<T>(&self, result: zbus::Result<T>) -> zbus::Result<T> {
        if let Err(zbus::Error::InputOutput(_)) = &result {
            *self.bus.lock().await = None;
        }
        result
    }
}

/// Turns the error for a missing bus, or for a bus without systemd, into `None`.
fn unless_absent<T>(result: zbus::Result<T>) -> zbus::Result<Option<T>> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(zbus::Error::Connection(error, _))
            if matches!(error.kind(), NotFound | ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(zbus::Error::FDO(error)) if matches!(*error, fdo::Error::ServiceUnknown(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn call<B: Serialize + DynamicType>(
    bus: &Connection,
    path: &str,
    interface: &str,
    method: &str,
    body: &B,
) -> zbus::Result<Message> {
    bus.call_method(Some(SERVICE), path, Some(interface), method, body).await
}

async fn property(
    bus: &Connection,
    path: &str,
    interface: &str,
    name: &str,
) -> zbus::Result<OwnedVariant> {
    let told = call(bus, path, PROPERTIES, "Get", &(interface, name)).await;
    told?.body().deserialize()
}

/// The name of the unit that would have this cgroup, and the D-Bus interface of its kind.
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

/// Whether the name of a cgroup is that of a unit.
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
