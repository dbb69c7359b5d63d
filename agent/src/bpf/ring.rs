// SPDX-License-Identifier: Apache-2.0
//! What both samplers share: the ring of sampled accesses, what was lost, and what they need.

use super::event::Event;
use super::sampler_layout::Losses;
use super::shares;
use crate::error::{Error, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::{Map, MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The sampler takes a page for 4 KiB, as everything else here does.
const PAGE_BYTES: i64 = 4096;
/// Events that are kept until they are taken; more are counted as dropped.
const MAX_PENDING: usize = 1 << 20;

/// No cgroup has this id.
const NO_CGROUP: u64 = 0;

#[derive(Default)]
struct Pending {
    events: Vec<Event>,
    /// By cgroup.
    dropped: HashMap<u64, u64>,
}

impl Pending {
    fn take(&mut self, bytes: &[u8]) {
        match Event::parse(bytes) {
            Some(event) if self.events.len() < MAX_PENDING => self.events.push(event),
            Some(event) => self.drop_one(event.record.cgroup),
            None => self.drop_one(NO_CGROUP),
        }
    }

    fn drop_one(&mut self, cgroup_id: u64) {
        *self.dropped.entry(cgroup_id).or_default() += 1;
    }
}

/// The map `events` of an object, read.
pub struct Ring {
    ring: RingBuffer<'static>,
    pending: Arc<Mutex<Pending>>,
}

impl Ring {
    /// The ring of a loaded object.
    ///
    /// # Errors
    /// What libbpf says.
    pub fn of(object: &Object) -> libbpf_rs::Result<Self> {
        let pending = Arc::new(Mutex::new(Pending::default()));
        let taken = Arc::clone(&pending);
        let map = object.maps().find(|map| map.name() == OsStr::new("events"));
        let map =
            map.ok_or_else(|| libbpf_rs::Error::from(std::io::Error::other("no map events")))?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |bytes| {
            taken.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
            0
        })?;
        Ok(Self { ring: builder.build()?, pending })
    }

    /// Takes the events that have come since the last time, oldest first.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn drain(&self) -> Result<Vec<Event>> {
        self.ring.consume().map_err(|e| Error::Sampler(format!("events: {e}")))?;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut pending.events))
    }

    /// What the programs of `object` and this side had no room for.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn losses(&self, object: &Object) -> Result<Losses> {
        let found = map_of(object, "losses")?.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let cpus = found.map_err(|e| Error::Sampler(format!("losses: {e}")))?;
        let mut losses = Losses::from_cpus(cpus.unwrap_or_default().iter().map(Vec::as_slice));
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        losses.dropped_events += pending.dropped.values().sum::<u64>();
        Ok(losses)
    }

    /// What both sides had no room for of one cgroup, and the pages that were looked at in the place
    /// of the kernel, see [`shares::read`].
    ///
    /// # Errors
    /// What the kernel says.
    pub fn losses_of(&self, object: &Object, cgroup_id: u64) -> Result<(Losses, u64)> {
        let (mut losses, rest_pages) = shares::read(object, cgroup_id)?;
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        losses.dropped_events += pending.dropped.get(&cgroup_id).copied().unwrap_or(0);
        Ok((losses, rest_pages))
    }

    /// Stops tracking a cgroup, and forgets what was lost of it; of all together it stays.
    pub fn forget(&self, object: &Object, cgroup_id: u64) {
        shares::close(object, cgroup_id);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dropped) = pending.dropped.remove(&cgroup_id) {
            *pending.dropped.entry(NO_CGROUP).or_default() += dropped;
        }
    }
}

/// A map by its name.
///
/// # Errors
/// When the object file has none of that name.
pub fn map_of<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name));
    map.ok_or_else(|| Error::Sampler(format!("its object file has no map {name}")))
}

/// How often the kernel left out a program because it was running on that CPU already.
pub fn recursions(object: &Object) -> u64 {
    let of = |program: libbpf_rs::Program<'_>| {
        super::program::info(program.as_fd()).map_or(0, |info| info.recursion_misses)
    };
    object.progs().map(of).sum()
}

/// The kernel's types, when sampling with `object_file` is possible at all.
///
/// # Errors
/// [`Error::NotRoot`], or [`Error::Sampler`] with what is missing.
pub fn kernel_types(object_file: &[u8]) -> Result<Btf<'static>> {
    // SAFETY: these calls have plain arguments and cannot fail.
    let (user, page_bytes) = unsafe { (libc::geteuid(), libc::sysconf(libc::_SC_PAGESIZE)) };
    if user != 0 {
        return Err(Error::NotRoot);
    }
    let refuse = |reason: &str| Err(Error::Sampler(reason.into()));
    if object_file.is_empty() {
        return refuse("this agent was built without it (clang was missing)");
    }
    if page_bytes != PAGE_BYTES {
        return refuse("pages of this kernel are not of 4 KiB");
    }
    if !Path::new(TYPES).exists() {
        return refuse("the kernel describes no types (CONFIG_DEBUG_INFO_BTF)");
    }
    Btf::from_vmlinux().or_else(|_| refuse("the kernel's types cannot be read"))
}
