// SPDX-License-Identifier: Apache-2.0
//! Changes of the policies of cgroups: attach, swap, detach, set.
//!
//! If the process is killed at any point, either the old policy or the new one is in force. Maps
//! are pinned before the step that takes effect, which is one system call (pinning the new link, or
//! updating or detaching the pinned one), and old maps are removed after it. [`super::pins`]
//! describes the leftovers.

use super::attached::{Attached, Policies, open_tunables};
use super::folder::{PolicyDir, PolicyFile};
use super::foreign::{ForeignPolicy, ObjectFile};
use super::loaded::LoadedPolicy;
use super::memory;
use super::ops_layout::Registered;
use super::pins::CgroupPins;
use super::settings::{Setting, changes};
use super::sized::most_pages;
use super::stats::CgroupStats;
use crate::bpf::link::{OpsLink, pin};
use crate::cgroup::{self, Cgroup};
use crate::error::{Error, Result};
use cachepilot_models::policy::Manifest;
use std::os::fd::AsFd;

impl Policies {
    /// Attaches a policy with these tunables to a cgroup that has none of its own.
    ///
    /// # Errors
    /// Returns [`Error::AlreadyAttached`] if it has one, or the kernel's error.
    pub fn attach(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<()> {
        let _lock = self.pins.lock()?;
        let pins = self.vacant(cgroup)?;
        let policy = self.load(cgroup, file, tunables)?;
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

    /// As [`Self::attach`], for an object without a manifest. Returns the name of the policy.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn attach_object(&self, cgroup: &Cgroup, file: &ObjectFile) -> Result<String> {
        let _lock = self.pins.lock()?;
        let pins = self.vacant(cgroup)?;
        let mut policy = ForeignPolicy::load(file, cgroup)?;
        pins.create()?;
        let done = policy.attach(&pins);
        if done.is_err() {
            pins.remove()?;
        }
        done.map(|()| policy.name)
    }

    /// Replaces the policy of a cgroup atomically, even if the kernel has ejected it. Returns the
    /// name of the replaced policy.
    ///
    /// # Errors
    /// Returns [`Error::NotAttached`] if the cgroup has none, or the kernel's error.
    pub fn swap(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<String> {
        let _lock = self.pins.lock()?;
        let pins = self.pins.of(cgroup.id);
        let old = self.own(cgroup, &pins)?;
        let policy = self.load(cgroup, file, tunables)?;
        policy.register(&self.layout, cgroup.id)?;
        let done = pin_maps(&policy, &pins).and_then(|table_id| {
            let what = format!("swapping {} for {}", old.registered.policy, file.manifest.name);
            old.link.update(policy.table()?.as_fd()).map_err(Error::kernel(what))?;
            Ok(table_id)
        });
        pins.sweep(*done.as_ref().unwrap_or(&old.table_id))?;
        done.map(|_| old.registered.policy)
    }

    /// Detaches the policy of a cgroup, which returns to the kernel's default. Returns the name of
    /// the policy.
    ///
    /// # Errors
    /// Returns [`Error::NotAttached`] if the cgroup has none, or the kernel's error.
    pub fn detach(&self, cgroup: &Cgroup) -> Result<String> {
        let _lock = self.pins.lock()?;
        let pins = self.pins.of(cgroup.id);
        let old = self.own(cgroup, &pins)?;
        let what = format!("detaching {}", old.registered.policy);
        old.link.detach().map_err(Error::kernel(what))?;
        pins.remove()?;
        Ok(old.registered.policy)
    }

    /// Changes tunables of the policy that a cgroup has. Returns the name of the policy.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] before anything is changed, or the kernel's error.
    pub fn set(&self, cgroup: &Cgroup, dir: &PolicyDir, settings: &[Setting]) -> Result<String> {
        let _lock = self.pins.lock()?;
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

    /// Replaces the tasks that the pinned policy of a cgroup treats apart. Does nothing if that is
    /// not the policy of `manifest`.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn set_tasks(&self, cgroup_id: u64, manifest: &Manifest, tasks: &[u32]) -> Result<()> {
        let _lock = self.pins.lock()?;
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

    /// Removes the pins of cgroups that are gone, and pins without effect.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn sweep(&self) -> Result<()> {
        let _lock = self.pins.lock()?;
        let all = self.pins.all()?;
        let gone = cgroup::gone(all.iter().map(|pins| pins.id), &cgroup::mount::mounted()?)?;
        for pins in all {
            // Pins without effect are leftovers of a loader that was killed: under this lock, no
            // other loader is at work.
            if gone.contains(&pins.id) || matches!(self.attached(&pins), Ok(None)) {
                pins.remove()?;
            }
        }
        Ok(())
    }

    /// Loads a policy for a cgroup, unless no memory is left for it. The policy that it replaces does
    /// not count: it exists beside the new one only during the swap.
    fn load(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<LoadedPolicy> {
        let pages = most_pages(cgroup);
        if let Some(limit) = self.memory {
            let others = self.pins.all()?.into_iter().filter(|pins| pins.id != cgroup.id);
            let others: u64 = others.map(|pins| memory::of_pins(&pins)).sum::<Result<u64>>()?;
            limit.check(&file.manifest.name, memory::of_file(file, pages)?, others)?;
        }
        LoadedPolicy::load(file, tunables, pages)
    }

    /// The pins of a cgroup, after checking that it has no policy of its own.
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
        match stats.own(self.kind, cgroup.id) {
            Some(policy) => {
                Err(Error::Foreign { path: cgroup.path.clone(), policy: policy.into() })
            }
            None => Ok(()),
        }
    }
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
