// SPDX-License-Identifier: Apache-2.0
//! Reads the policies of cgroups from the kernel. Nothing is changed.

use super::folder::{PolicyDir, PolicyFile};
use super::kind::Kind;
use super::memory::PolicyMemory;
use super::ops_layout::{OpsLayout, Registered};
use super::pins::{CgroupPins, PinRoot};
use super::support;
use super::tunables::TunableWords;
use crate::bpf::checked;
use crate::bpf::link::OpsLink;
use crate::bpf::program;
use crate::error::{Error, Result};
use cachepilot_models::policy::{Manifest, Tunable};
use libbpf_rs::MapCore;
use libbpf_rs::MapHandle;
use serde_json::{Map, Value};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// A policy that a pinned link attaches.
#[derive(Debug)]
pub struct Attached {
    pub(super) link: OpsLink,
    /// Id of the map that is its table of hooks.
    pub table_id: u32,
    /// The content of that table.
    pub registered: Registered,
}

/// The policies of this machine, of one kind.
#[derive(Debug)]
pub struct Policies {
    pub(super) kind: Kind,
    pub(super) pins: PinRoot,
    pub(super) layout: OpsLayout,
    pub(super) memory: Option<PolicyMemory>,
}

impl Policies {
    /// Access to the eviction policies of this machine.
    ///
    /// # Errors
    /// Returns an error if this process or this kernel cannot load policies.
    pub fn open() -> Result<Self> {
        Self::open_kind(Kind::Eviction)
    }

    /// Access to the policies of a kind.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_kind(kind: Kind) -> Result<Self> {
        let (layout, pins) = (support::check_kind(kind)?, PinRoot::new(kind.pin_root()));
        Ok(Self { kind, layout, pins, memory: None })
    }

    /// Returns an access that attaches no policy with which all together take more memory.
    #[must_use]
    pub fn within(self, memory: PolicyMemory) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// Returns an access for a caller that must not wait for other processes, see
    /// [`PinRoot::hurried`].
    #[must_use]
    pub fn hurried(self, patience: Duration) -> Self {
        Self { pins: self.pins.hurried(patience), ..self }
    }

    /// Allows another wait of the full length for another process.
    pub fn renew(&self) {
        self.pins.renew();
    }

    /// All cgroups with pins.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn pinned(&self) -> Result<Vec<CgroupPins>> {
        self.pins.all()
    }

    /// The present tunables, by name, of the policy whose link is pinned for a cgroup; `None` if
    /// there is no such policy, or if `dir` does not contain it.
    ///
    /// # Errors
    /// Returns the kernel's error.
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

    /// The values of all tunables of the policy whose link is pinned for a cgroup; `None` if that
    /// is not the policy of `manifest`.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn words(&self, cgroup_id: u64, manifest: &Manifest) -> Result<Option<Vec<u32>>> {
        let pins = self.pins.of(cgroup_id);
        match self.attached(&pins)? {
            Some(attached) if attached.registered.policy == manifest.name => {
                Ok(Some(open_tunables(&pins, &attached, manifest)?.get()))
            }
            _ => Ok(None),
        }
    }

    /// Name of the policy that the pinned link of a cgroup attaches; `None` if there is none.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn pinned_policy(&self, cgroup_id: u64) -> Result<Option<String>> {
        Ok(self.attached(&self.pins.of(cgroup_id))?.map(|attached| attached.registered.policy))
    }

    /// The id of the table of hooks that the pinned link of a cgroup attaches, and the nanoseconds
    /// that its programs ran while run times were counted; `None` if there is no such link.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn run_time_ns(&self, cgroup_id: u64) -> Result<Option<(u32, u64)>> {
        let pins = self.pins.of(cgroup_id);
        let Some(Attached { table_id, .. }) = self.attached(&pins)? else { return Ok(None) };
        let ids = self.table_value(table_id).map(|value| self.layout.program_ids(&value));
        let ran_ns = ids.and_then(|ids| ids.into_iter().map(program::run_time_ns).sum());
        Ok(Some((table_id, ran_ns.map_err(Error::io(&pins.link()))?)))
    }

    /// The policy that the pinned link of a cgroup attaches; `None` if there is none.
    ///
    /// # Errors
    /// Returns the kernel's error.
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

    /// The content of the table with the id `table_id`.
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
        // SAFETY: key and value have the sizes of the map's, by the check above.
        checked(unsafe {
            libbpf_sys::bpf_map_lookup_elem(
                map.as_fd().as_raw_fd(),
                (&raw const key).cast(),
                value.as_mut_ptr().cast(),
            )
        })?;
        Ok(value)
    }
}

fn strange() -> io::Error {
    io::Error::other("its table is not one of policies of this kind")
}

pub(super) fn open_tunables(
    pins: &CgroupPins,
    of: &Attached,
    manifest: &Manifest,
) -> Result<TunableWords> {
    let file = pins.tunables(of.table_id);
    TunableWords::open(&file, manifest.tunable_words()).map_err(Error::io(&file))
}
