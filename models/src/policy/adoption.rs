// SPDX-License-Identifier: Apache-2.0
//! The pages that a simulated cache has and the pages that it evicted. Together they make it
//! possible to hand all its pages to another policy, as the kernel does. The C side is
//! `bpf/include/native/adopt.h`.

use super::instance::{Instance, failure};
use crate::error::{Error, Result};
use std::slice;

/// Largest number of evictions that can be logged: 64 MiB.
const MAX_LOG: usize = 1 << 22;

/// A page evicted by reclaim. Layout of `struct cx_eviction`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    /// Key of the page.
    pub key: u64,
    /// Number of requests that the instance had served before the eviction.
    pub request: u64,
}

/// The evictions since the last call of [`Instance::take_evictions`], in order.
#[derive(Debug, Clone, Copy)]
pub struct Evictions<'a> {
    /// The evictions that fitted into the log.
    pub entries: &'a [Eviction],
    /// Number of further evictions, which did not fit.
    pub lost: u64,
}

impl Instance {
    /// Returns the keys of all resident pages, in the order in which the kernel hands them to
    /// another policy: list by list, each from its head, which is its oldest end.
    #[must_use]
    pub fn resident_keys(&self) -> Vec<u64> {
        let count = self.stats().resident as usize;
        let mut keys = vec![0; count];
        // SAFETY: `sim` is a live instance, and there is room for every resident page.
        unsafe { (self.policy.vtable.get().resident)(self.sim.as_ptr(), keys.as_mut_ptr()) };
        keys
    }

    /// Takes over pages, oldest first. Each page is added but not accessed, and no request is
    /// counted. Pages that are resident already stay as they are. If there is not enough room,
    /// reclaim evicts other pages.
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

    /// Logs evictions from now on, up to `capacity` between two calls of
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

    /// Returns the evictions since the last call. The result is empty if
    /// [`Instance::log_evictions`] was never called.
    pub fn take_evictions(&mut self) -> Evictions<'_> {
        let mut count = 0;
        // SAFETY: `sim` is a live instance, and `count` is valid for writes.
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
