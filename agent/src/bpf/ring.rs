// SPDX-License-Identifier: Apache-2.0
//! What both samplers share: the ring buffer of sampled accesses, the losses, and the requirements.

use super::event::Event;
use super::layout::Losses;
use crate::error::{Error, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::{Map, MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// The sampler assumes pages of 4 KiB, as everything else here does.
const PAGE_BYTES: i64 = 4096;
/// Number of events that are taken at a time: few enough to take little memory, and enough for the
/// calls to cost little.
const BATCH: usize = 4096;
/// Number of batches in one [`Ring::drain`]. Further events wait in the ring, or are counted there
/// as lost.
const BATCHES: usize = 256;

#[derive(Default)]
struct Taken {
    events: Vec<Event>,
    /// Records that are too short to be events.
    unreadable: u64,
}

/// Reads the map `events` of an object.
pub struct Ring {
    ring: RingBuffer<'static>,
    taken: Arc<Mutex<Taken>>,
}

impl Ring {
    /// The ring of a loaded object.
    ///
    /// # Errors
    /// Returns the error of libbpf.
    pub fn of(object: &Object) -> libbpf_rs::Result<Self> {
        let taken = Arc::new(Mutex::new(Taken::default()));
        let of_callback = Arc::clone(&taken);
        let map = object.maps().find(|map| map.name() == OsStr::new("events"));
        let map = map.ok_or_else(|| libbpf_rs::Error::from(io::Error::other("no map events")))?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&map, move |bytes| {
            let mut taken = of_callback.lock().unwrap_or_else(PoisonError::into_inner);
            match Event::parse(bytes) {
                Some(event) => taken.events.push(event),
                None => taken.unreadable += 1,
            }
            0
        })?;
        Ok(Self { ring: builder.build()?, taken })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the events that arrived since the last call to `take`, oldest first, in batches.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn drain(&self, take: &mut dyn FnMut(&[Event])) -> Result<()> {
        for _ in 0..BATCHES {
            let count = self.ring.consume_raw_n(BATCH);
            let failed =
                |_| Error::Sampler(format!("events: {}", io::Error::from_raw_os_error(-count)));
            let count = usize::try_from(count).map_err(failed)?;
            let mut events = std::mem::take(&mut self.taken().events);
            take(&events);
            events.clear();
            self.taken().events = events;
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// The losses that the programs of `object` counted, with the records that could not be parsed.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn losses(&self, object: &Object) -> Result<Losses> {
        let found = map_of(object, "losses")?.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let cpus = found.map_err(|e| Error::Sampler(format!("losses: {e}")))?;
        let mut losses = Losses::from_cpus(cpus.unwrap_or_default().iter().map(Vec::as_slice));
        losses.dropped_events += self.taken().unreadable;
        Ok(losses)
    }
}

/// A map by its name.
///
/// # Errors
/// Returns an error if the object file has none of that name.
pub fn map_of<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    let map = object.maps().find(|map| map.name() == OsStr::new(name));
    map.ok_or_else(|| Error::Sampler(format!("its object file has no map {name}")))
}

/// How often the kernel skipped a program because it was already running on that CPU.
pub fn recursions(object: &Object) -> u64 {
    let of = |program: libbpf_rs::Program<'_>| {
        super::program::info(program.as_fd()).map_or(0, |info| info.recursion_misses)
    };
    object.progs().map(of).sum()
}

/// The kernel's types, after checking that sampling with `object_file` is possible at all.
///
/// # Errors
/// Returns [`Error::NotRoot`], or [`Error::Sampler`] with what is missing.
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
