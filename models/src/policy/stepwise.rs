// SPDX-License-Identifier: Apache-2.0
//! Serves a request in steps, for a caller that decides itself what is read on a miss. The C side
//! is `bpf/include/native/stepwise.h`.

use super::instance::{Instance, failure};
use crate::error::Result;
use std::ptr;

impl Instance {
    /// Begins a request of a task, at `time_ns` if the time is known. All steps until
    /// [`Instance::end_request`] belong to it.
    pub fn begin_request(&mut self, task: u32, time_ns: Option<u64>) {
        let time_ns = time_ns.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: `sim` is a live instance of this table, which copies what it is given.
        unsafe { (self.policy.vtable.get().begin_request)(self.sim.as_ptr(), task, time_ns) }
    }

    /// Ends the request. It counts as one request for each of its `pages`.
    pub fn end_request(&mut self, pages: u64) {
        // SAFETY: as in `begin_request`.
        unsafe { (self.policy.vtable.get().end_request)(self.sim.as_ptr(), pages) }
    }

    /// Returns whether the page is resident.
    #[must_use]
    pub fn holds(&self, key: u64) -> bool {
        // SAFETY: as above; the call writes only the thread-local instance pointer.
        unsafe { (self.policy.vtable.get().holds)(self.sim.as_ptr(), key) }
    }

    /// Adds a page that is not resident, and makes room for it. `ahead` says that the page is read
    /// ahead. The policy may refuse a page that is not read ahead.
    ///
    /// # Errors
    /// [`crate::Error::Policy`] when memory runs out.
    pub fn add_page(&mut self, key: u64, ahead: bool) -> Result<()> {
        debug_assert!(!self.holds(key));
        // SAFETY: as above.
        let status = unsafe { (self.policy.vtable.get().add_page)(self.sim.as_ptr(), key, ahead) };
        if status < 0 { Err(failure(self.policy, "out of memory")) } else { Ok(()) }
    }

    /// Accesses a page, for the first time since it was added or again. A page that is not resident
    /// was refused by the policy, and its reader has the data anyway. A page that was read ahead
    /// and that the policy does not admit is dropped at its first access.
    pub fn access_page(&mut self, key: u64) {
        // SAFETY: as above.
        unsafe { (self.policy.vtable.get().access_page)(self.sim.as_ptr(), key) }
    }
}
