// SPDX-License-Identifier: Apache-2.0
//! What a simulated cache holds and what it lost: enough to hand its pages to another policy
//! without losing one, as the kernel does. The C side is `bpf/include/native/adopt.h`.

use super::instance::{Instance, failure};
use crate::error::{Error, Result};
use std::slice;

/// Most evictions that may be kept: 64 MiB.
const MAX_LOG: usize = 1 << 22;

/// A page that reclaim took. Layout of `struct cx_eviction`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// Its key.
    pub key: u64,
    /// Requests that the instance had served before.
    pub request: u64,
}

/// Evictions since they were last taken, in order.
#[derive(Debug, Clone, Copy)]
pub struct Evictions<'a> {
    /// Those that there was room for.
    pub entries: &'a [Eviction],
    /// How many more there were.
    pub lost: u64,
}

impl Instance {
    /// Keys of all resident pages in the order in which the kernel hands them to another policy:
    /// list by list, each from its head, which is its oldest end.
    #[must_use]
    pub fn resident_keys(&self) -> Vec<u64> {
        let count = self.stats().resident as usize;
        let mut keys = vec![0; count];
        // SAFETY: `sim` is a live instance, and there is room for every resident page.
        unsafe { (self.policy.vtable.get().resident)(self.sim.as_ptr(), keys.as_mut_ptr()) };
        keys
    }

    /// Takes over pages, oldest first: each is added, none is accessed, and no request is counted.
    /// Pages that are resident stay as they are; those that do not fit make reclaim take others.
    ///
    /// # Errors
    /// [`Error::Policy`] when memory runs out or an invariant is broken.
    pub fn adopt(&mut self, keys: &[u64]) -> Result<()> {
        // SAFETY: `sim` is a live instance, and `keys` has as many words as are read.
        let status = unsafe {
            (self.policy.vtable.get().adopt)(self.sim.as_ptr(), keys.as_ptr(), keys.len() as u64)
        };
        if status != 0 {
            return Err(failure(self.policy, "out of memory"));
        }
        if cfg!(debug_assertions) { self.check() } else { Ok(()) }
    }

    /// From now on evictions are written down, up to `capacity` between two calls of
    /// [`Instance::take_evictions`].
    ///
    /// # Errors
    /// [`Error::Argument`] on a capacity outside 1..=2^22; [`Error::Policy`] when memory runs out.
    pub fn log_evictions(&mut self, capacity: usize) -> Result<()> {
        if !(1..=MAX_LOG).contains(&capacity) {
            let message = format!("{capacity} is not in 1..={MAX_LOG}");
            return Err(Error::argument("capacity", message));
        }
        // SAFETY: `sim` is a live instance of this table.
        let status =
            unsafe { (self.policy.vtable.get().log_evictions)(self.sim.as_ptr(), capacity as u64) };
        if status != 0 {
            return Err(failure(self.policy, "out of memory"));
        }
        self.log_capacity = capacity;
        Ok(())
    }

    /// What was evicted since the last call; nothing unless [`Instance::log_evictions`] was
    /// called.
    pub fn take_evictions(&mut self) -> Evictions<'_> {
        let mut count = 0;
        // SAFETY: `sim` is a live instance, `count` a valid place.
        let log =
            unsafe { (self.policy.vtable.get().take_evictions)(self.sim.as_ptr(), &raw mut count) };
        if log.is_null() {
            return Evictions { entries: &[], lost: 0 };
        }
        let kept = (count as usize).min(self.log_capacity);
        // SAFETY: the log holds `log_capacity` entries, the first `kept` of them written, and it
        // stays as it is while the instance is borrowed.
        let entries = unsafe { slice::from_raw_parts(log, kept) };
        Evictions { entries, lost: count - kept as u64 }
    }
}
