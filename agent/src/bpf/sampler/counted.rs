// SPDX-License-Identifier: Apache-2.0
//! The counts of tenants that the sampler's programs maintain, about 1 KiB per tenant and CPU. They
//! are divided into parts of [`COUNTS_PART`] slots; each part is a map that exists while one of its
//! slots is in use.

use crate::bpf::layout::{COUNTS_BYTES, COUNTS_PART, Counts};
use crate::bpf::ring::map_of;
use crate::error::{Error, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

/// Name of the map of parts.
const MAP: &str = "counts";
const PART: &str = "counts_part";

/// The existing parts, by their index in the map of parts.
#[derive(Debug, Default)]
pub struct Parts(RefCell<BTreeMap<u32, Part>>);

#[derive(Debug)]
struct Part {
    map: MapHandle,
    slots: BTreeSet<u32>,
}

impl Parts {
    /// Begins to use a slot, whose counts start at zero. Does nothing if it is in use.
    ///
    /// # Errors
    /// Returns the kernel's error: too many slots, or no memory.
    pub fn open(&self, object: &Object, cpus: usize, slot: u32) -> Result<()> {
        let mut parts = self.0.borrow_mut();
        let number = slot / COUNTS_PART;
        let failed = |e: libbpf_rs::Error| Error::Sampler(format!("counts of slot {slot}: {e}"));
        if let Some(part) = parts.get_mut(&number) {
            if !part.slots.contains(&slot) {
                let zeros = vec![vec![0; COUNTS_BYTES]; cpus];
                let place = (slot % COUNTS_PART).to_ne_bytes();
                part.map.update_percpu(&place, &zeros, MapFlags::ANY).map_err(failed)?;
                part.slots.insert(slot);
            }
            return Ok(());
        }
        let map = new_part().map_err(failed)?;
        let descriptor = map.as_fd().as_raw_fd().to_ne_bytes();
        let put = map_of(object, MAP)?.update(&number.to_ne_bytes(), &descriptor, MapFlags::ANY);
        put.map_err(failed)?;
        parts.insert(number, Part { map, slots: BTreeSet::from([slot]) });
        Ok(())
    }

    /// Ends the use of a slot. A part without slots is removed.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn close(&self, object: &Object, slot: u32) -> Result<()> {
        let mut parts = self.0.borrow_mut();
        let number = slot / COUNTS_PART;
        let Some(part) = parts.get_mut(&number) else { return Ok(()) };
        part.slots.remove(&slot);
        if part.slots.is_empty() {
            parts.remove(&number);
            let removed = map_of(object, MAP)?.delete(&number.to_ne_bytes());
            removed.map_err(|e| Error::Sampler(format!("counts of slot {slot}: {e}")))?;
        }
        Ok(())
    }

    /// Reads the counts of each slot in use, with one system call per part.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn read(&self, cpus: usize) -> Result<HashMap<u32, Counts>> {
        let mut found = HashMap::new();
        let mut values = vec![0; COUNTS_PART as usize * COUNTS_BYTES * cpus];
        for (number, part) in self.0.borrow().iter() {
            read_part(part.map.as_fd().as_raw_fd(), &mut values)
                .map_err(|e| Error::Sampler(format!("counts: {e}")))?;
            let of_slots = values.chunks_exact(COUNTS_BYTES * cpus);
            for (place, cpus) in of_slots.enumerate() {
                let slot = number * COUNTS_PART + place as u32;
                if part.slots.contains(&slot) {
                    found.insert(slot, Counts::from_cpus(cpus.chunks_exact(COUNTS_BYTES)));
                }
            }
        }
        Ok(found)
    }
}

fn new_part() -> libbpf_rs::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let (key_bytes, value_bytes) = (size_of::<u32>() as u32, COUNTS_BYTES as u32);
    let kind = MapType::PercpuArray;
    MapHandle::create(kind, Some(PART), key_bytes, value_bytes, COUNTS_PART, &options)
}

/// Reads all entries of a part in the order of their slots, each with the values of all CPUs.
fn read_part(map: i32, values: &mut [u8]) -> io::Result<()> {
    let (mut count, mut next) = (COUNTS_PART, 0_u32);
    let mut places = [0_u32; COUNTS_PART as usize];
    // SAFETY: there is room for `count` keys, for as many values of all CPUs, and for a position,
    // which is a key for an array.
    let status = unsafe {
        libbpf_sys::bpf_map_lookup_batch(
            map,
            ptr::null_mut::<c_void>(),
            (&raw mut next).cast(),
            places.as_mut_ptr().cast(),
            values.as_mut_ptr().cast(),
            &raw mut count,
            ptr::null(),
        )
    };
    match crate::bpf::checked(status) {
        // The error means that there are no more entries.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
        result => drop(result?),
    }
    match count == COUNTS_PART {
        true => Ok(()),
        false => Err(io::Error::other(format!("{count} of {COUNTS_PART} entries were read"))),
    }
}
