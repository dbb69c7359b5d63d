// SPDX-License-Identifier: Apache-2.0
//! Changes of the policies of cgroups: attach, swap, detach, set.
//!
//! A kill at any point leaves the old policy or the new one. Maps are pinned before the step that
//! takes effect, which is one system call (pinning the new link, or updating or detaching the one
//! that is pinned), and what is old is removed after it; see [`super::pins`] for what remains.

use super::attached::{Attached, Policies, open_tunables};
use super::folder::{PolicyDir, PolicyFile};
use super::foreign::{ForeignPolicy, ObjectFile};
use super::loaded::LoadedPolicy;
use super::ops_layout::Registered;
use super::pins::CgroupPins;
use super::settings::{Setting, changes};
use super::stats::CgroupStats;
use crate::bpf::link::{OpsLink, pin};
use crate::cgroup::{self, Cgroup};
use crate::error::{Error, Result};
use cachepilot_models::policy::Manifest;
use std::os::fd::AsFd;

impl Policies {
    /// Gives a policy with these tunables to a cgroup that has none of its own.
    ///
    /// # Errors
    /// [`Error::AlreadyAttached`] when it has one, or what the kernel says.
    pub fn attach(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<()> {
        let _lock = self.pins.lock()?;
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

    /// Replaces the policy of a cgroup, at once and also when it was ejected; returns the name of
    /// the one that it had.
    ///
    /// # Errors
    /// [`Error::NotAttached`] when it has none, or what the kernel says.
    pub fn swap(&self, cgroup: &Cgroup, file: &PolicyFile, tunables: &[u32]) -> Result<String> {
        let _lock = self.pins.lock()?;
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
        let _lock = self.pins.lock()?;
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

    /// Replaces the tasks that the policy whose link is pinned for a cgroup treats apart; nothing
    /// when that is not the policy of `manifest`.
    ///
    /// # Errors
    /// What the kernel says.
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

    /// Removes the pins of cgroups that are gone, and those without effect.
    ///
    /// # Errors
    /// What the system says.
    pub fn sweep(&self) -> Result<()> {
        let _lock = self.pins.lock()?;
        let all = self.pins.all()?;
        let gone = cgroup::gone(all.iter().map(|pins| pins.id), &cgroup::mount::mounted()?)?;
        for pins in all {
            // What a loader that was killed left without effect goes, too: nobody else is at work.
            if gone.contains(&pins.id) || matches!(self.attached(&pins), Ok(None)) {
                pins.remove()?;
            }
        }
        Ok(())
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
