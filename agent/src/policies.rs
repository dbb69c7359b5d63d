// SPDX-License-Identifier: Apache-2.0
//! Policies of cgroups: attach, swap, detach, set.
//!
//! A kill at any point leaves the old policy or the new one. Maps are pinned before the step that
//! takes effect, which is one system call (pinning the new link, or updating or detaching the one
//! that is pinned), and what is old is removed after it; see [`crate::pins`] for what remains.

use crate::bpf::checked;
use crate::bpf::foreign::ForeignPolicy;
pub use crate::bpf::foreign::ObjectFile;
use crate::bpf::link::{OpsLink, pin};
use crate::bpf::object::LoadedPolicy;
use crate::bpf::ops_layout::{OpsLayout, Registered};
use crate::bpf::run_time;
use crate::bpf::support;
use crate::bpf::tunables::TunableWords;
use crate::cgroup::{self, Cgroup};
use crate::error::{Error, Result};
use crate::kind::Kind;
use crate::pins::{CgroupPins, Lock, PinRoot};
use crate::policy_dir::{PolicyDir, PolicyFile};
use crate::settings::{Setting, changes};
use crate::stats::CgroupStats;
use cachepilot_models::policy::{Manifest, Tunable};
use libbpf_rs::{MapCore, MapHandle};
use serde_json::{Map, Value};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};

/// A policy that a pinned link attaches.
#[derive(Debug)]
pub struct Attached {
    link: OpsLink,
    /// Id of the map that is its table of hooks.
    pub table_id: u32,
    /// What that table says.
    pub registered: Registered,
}

/// The policies of this machine, of one kind.
#[derive(Debug)]
pub struct Policies {
    kind: Kind,
    pins: PinRoot,
    layout: OpsLayout,
}

impl Policies {
    /// Access to the eviction policies of this machine.
    ///
    /// # Errors
    /// When this process or this kernel cannot load policies.
    pub fn open() -> Result<Self> {
        Self::open_kind(Kind::Eviction)
    }

    /// Access to the policies of a kind.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_kind(kind: Kind) -> Result<Self> {
        Ok(Self { kind, layout: support::check_kind(kind)?, pins: PinRoot::new(kind.pin_root()) })
    }

    /// Every cgroup with pins.
    ///
    /// # Errors
    /// What the system says.
    pub fn pinned(&self) -> Result<Vec<CgroupPins>> {
        self.pins.all()
    }

    /// Gives a policy with these tunables to a cgroup that has none of its own.
    ///
    /// # Errors
    /// [`Error::AlreadyAttached`] when it has one, or what the kernel says.
    pub fn attach(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<()> {
        let _lock = self.lock()?;
        let pins = self.vacant(cgroup)?;
        let policy = LoadedPolicy::load(file, tunables)?;
        policy.register(&self.layout, cgroup.id)?;
        pins.create()?;
        let done = pin_maps(&policy, &pins).and_then(|_| {
            let what = format!("attaching {} to {}", file.manifest.name, cgroup.path.display());
            let table = policy.table()?;
            let link = OpsLink::create(table.as_fd()).map_err(Error::kernel(what))?;
            link.pin(&pins.link()).map_err(Error::io(&pins.link()))
        });
        if done.is_err() {
            pins.remove()?;
        }
        done
    }

    /// The same with an object that has no manifest; returns the name that it has from then on.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn attach_object(&self, cgroup: &Cgroup, file: &ObjectFile) -> Result<String> {
        let _lock = self.lock()?;
        let pins = self.vacant(cgroup)?;
        let mut policy = ForeignPolicy::load(file, cgroup)?;
        pins.create()?;
        let done = policy.attach(&pins);
        if done.is_err() {
            pins.remove()?;
        }
        done.map(|()| policy.name)
    }

    /// Replaces the policy of a cgroup, at once and also when it was ejected; returns the name of
    /// the one that it had.
    ///
    /// # Errors
    /// [`Error::NotAttached`] when it has none, or what the kernel says.
    pub fn swap(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<String> {
        let _lock = self.lock()?;
        let pins = self.pins.of(cgroup.id);
        let old = self.own(cgroup, &pins)?;
        let policy = LoadedPolicy::load(file, tunables)?;
        policy.register(&self.layout, cgroup.id)?;
        let done = pin_maps(&policy, &pins).and_then(|table_id| {
            let what = format!("swapping {} for {}", old.registered.policy, file.manifest.name);
            old.link.update(policy.table()?.as_fd()).map_err(Error::kernel(what))?;
            Ok(table_id)
        });
        pins.sweep(*done.as_ref().unwrap_or(&old.table_id))?;
        done.map(|_| old.registered.policy)
    }

    /// Takes the policy from a cgroup, which returns to the kernel's default; returns its name.
    ///
    /// # Errors
    /// [`Error::NotAttached`] when it has none, or what the kernel says.
    pub fn detach(&self, cgroup: &Cgroup) -> Result<String> {
        let _lock = self.lock()?;
        let pins = self.pins.of(cgroup.id);
        let old = self.own(cgroup, &pins)?;
        let what = format!("detaching {}", old.registered.policy);
        old.link.detach().map_err(Error::kernel(what))?;
        pins.remove()?;
        Ok(old.registered.policy)
    }

    /// Changes tunables of the policy that a cgroup has.
    ///
    /// # Errors
    /// [`Error::Setting`] before anything is changed, or what the kernel says.
    pub fn set(&self, cgroup: &Cgroup, dir: &PolicyDir, settings: &[Setting]) -> Result<String> {
        let _lock = self.lock()?;
        let pins = self.pins.of(cgroup.id);
        let attached = self.own(cgroup, &pins)?;
        let manifest = dir.policy(&attached.registered.policy)?.manifest;
        let changes = changes(&manifest, settings)?;
        let mut words = open_tunables(&pins, &attached, &manifest)?;
        for (range, value) in changes {
            words.set(range, value);
        }
        Ok(manifest.name)
    }

    /// Replaces the tasks that the policy whose link is pinned for a cgroup treats apart; nothing
    /// when that is not the policy of `manifest`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_tasks(&self, cgroup_id: u64, manifest: &Manifest, tasks: &[u32]) -> Result<()> {
        let _lock = self.lock()?;
        let pins = self.pins.of(cgroup_id);
        let Some(attached) = self.attached(&pins)? else { return Ok(()) };
        if attached.registered.policy != manifest.name {
            return Ok(());
        }
        let mut words = open_tunables(&pins, &attached, manifest)?;
        let wanted = manifest.with_tasks(words.get(), tasks);
        for (word, value) in wanted.into_iter().enumerate() {
            words.set(word..word + 1, value);
        }
        Ok(())
    }

    /// The tunables of the policy whose link is pinned for a cgroup, by name, as they are now;
    /// `None` when there is no such policy, or `dir` does not know it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn tunables(&self, cgroup_id: u64, dir: &PolicyDir) -> Result<Option<Map<String, Value>>> {
        let Some(policy) = self.pinned_policy(cgroup_id)? else { return Ok(None) };
        let Ok(PolicyFile { manifest, .. }) = dir.policy(&policy) else { return Ok(None) };
        let Some(words) = self.words(cgroup_id, &manifest)? else { return Ok(None) };
        let mut words = words.into_iter();
        let value = |tunable: &Tunable| match tunable.length {
            1 => words.next().map_or(Value::Null, Value::from),
            length => words.by_ref().take(length as usize).collect::<Vec<_>>().into(),
        };
        let values: Vec<Value> = manifest.tunables.iter().map(value).collect();
        Ok(Some(manifest.tunables.iter().map(|t| t.name.clone()).zip(values).collect()))
    }

    /// Values of all tunables of the policy whose link is pinned for a cgroup; `None` when that is
    /// not the policy of `manifest`.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn words(&self, cgroup_id: u64, manifest: &Manifest) -> Result<Option<Vec<u32>>> {
        let pins = self.pins.of(cgroup_id);
        match self.attached(&pins)? {
            Some(attached) if attached.registered.policy == manifest.name => {
                Ok(Some(open_tunables(&pins, &attached, manifest)?.get()))
            }
            _ => Ok(None),
        }
    }

    /// Removes the pins of cgroups that are gone, and those without effect.
    ///
    /// # Errors
    /// What the system says.
    pub fn sweep(&self) -> Result<()> {
        self.lock().map(drop)
    }

    /// Name of the policy that the pinned link of a cgroup attaches, if there is one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn pinned_policy(&self, cgroup_id: u64) -> Result<Option<String>> {
        Ok(self.attached(&self.pins.of(cgroup_id))?.map(|attached| attached.registered.policy))
    }

    /// Which table of hooks the pinned link of a cgroup attaches, if there is one, and the
    /// nanoseconds that its programs ran while that was counted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run_time_ns(&self, cgroup_id: u64) -> Result<Option<(u32, u64)>> {
        let pins = self.pins.of(cgroup_id);
        let Some(Attached { table_id, .. }) = self.attached(&pins)? else { return Ok(None) };
        let ids = self.table_value(table_id).map(|value| self.layout.program_ids(&value));
        let ran_ns = ids.and_then(|ids| ids.into_iter().map(run_time::of_program).sum());
        Ok(Some((table_id, ran_ns.map_err(Error::io(&pins.link()))?)))
    }

    /// The policy that the pinned link of a cgroup attaches, if there is one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn attached(&self, pins: &CgroupPins) -> Result<Option<Attached>> {
        let file = pins.link();
        let link = match OpsLink::open(&file) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            link => link.map_err(Error::io(&file))?,
        };
        let Some(table_id) = link.map_id().map_err(Error::io(&file))? else { return Ok(None) };
        let registered = self.registered(table_id).map_err(Error::io(&file))?;
        Ok(Some(Attached { link, table_id, registered }))
    }

    /// What the table called `table_id` says.
    fn registered(&self, table_id: u32) -> io::Result<Registered> {
        let value = self.table_value(table_id)?;
        self.layout.decode(&value).ok_or_else(strange)
    }

    fn table_value(&self, table_id: u32) -> io::Result<Vec<u8>> {
        let map = MapHandle::from_map_id(table_id).map_err(io::Error::other)?;
        if map.value_size() as usize != self.layout.value_bytes() {
            return Err(strange());
        }
        let mut value = vec![0_u8; self.layout.value_bytes()];
        let key = 0_u32;
        // SAFETY: key and value are as large as the map's, by the check above.
        checked(unsafe {
            libbpf_sys::bpf_map_lookup_elem(
                map.as_fd().as_raw_fd(),
                (&raw const key).cast(),
                value.as_mut_ptr().cast(),
            )
        })?;
        Ok(value)
    }

    /// The pins of a cgroup that has no policy of its own.
    fn vacant(&self, cgroup: &Cgroup) -> Result<CgroupPins> {
        let pins = self.pins.of(cgroup.id);
        if let Some(Attached { registered: Registered { policy, .. }, .. }) =
            self.attached(&pins)?
        {
            return Err(Error::AlreadyAttached { path: cgroup.path.clone(), policy });
        }
        self.refuse_foreign(cgroup)?;
        pins.remove()?;
        Ok(pins)
    }

    /// The policy that this program attached to a cgroup.
    fn own(&self, cgroup: &Cgroup, pins: &CgroupPins) -> Result<Attached> {
        if let Some(attached) = self.attached(pins)? {
            return Ok(attached);
        }
        self.refuse_foreign(cgroup)?;
        Err(Error::NotAttached(cgroup.path.clone()))
    }

    fn refuse_foreign(&self, cgroup: &Cgroup) -> Result<()> {
        let stats = CgroupStats::read(cgroup)?;
        match stats.policy_of(self.kind) {
            Some((policy, owner)) if owner == cgroup.id => {
                Err(Error::Foreign { path: cgroup.path.clone(), policy: policy.into() })
            }
            _ => Ok(()),
        }
    }

    /// Keeps other processes out, and removes pins of cgroups that are gone and those without effect.
    fn lock(&self) -> Result<Lock> {
        let lock = self.pins.lock()?;
        let all = self.pins.all()?;
        let gone = cgroup::gone(all.iter().map(|pins| pins.id), &cgroup::mounted()?)?;
        for pins in all {
            // What a loader that was killed left without effect goes, too: nobody else is at work.
            if gone.contains(&pins.id) || matches!(self.attached(&pins), Ok(None)) {
                pins.remove()?;
            }
        }
        Ok(lock)
    }
}

fn strange() -> io::Error {
    io::Error::other("its table is not one of policies of this kind")
}

fn open_tunables(pins: &CgroupPins, of: &Attached, manifest: &Manifest) -> Result<TunableWords> {
    let file = pins.tunables(of.table_id);
    TunableWords::open(&file, manifest.tunable_words()).map_err(Error::io(&file))
}

/// Pins the maps of a policy and returns the id of its table.
fn pin_maps(policy: &LoadedPolicy, pins: &CgroupPins) -> Result<u32> {
    let table_id = policy.table_id()?;
    let maps = [
        (policy.tunables_map(), pins.tunables(table_id)),
        (policy.state_map(), pins.state(table_id)),
    ];
    for (map, path) in maps {
        if let Some(map) = map {
            pin(map.as_fd(), &path).map_err(Error::io(&path))?;
        }
    }
    Ok(table_id)
}
