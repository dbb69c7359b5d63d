// SPDX-License-Identifier: Apache-2.0
//! One simulated page cache under one policy. The C side is `bpf/include/native/instance.h`.

use super::adoption::Eviction;
use super::registry::Policy;
use crate::error::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

/// Number of candidates that the kernel requests in one eviction request (`SWAP_CLUSTER_MAX`).
pub const KERNEL_BATCH: u32 = 32;

/// An instance never evicts more than one part in this many of its capacity at once. A request for
/// 32 pages in a cache of 40 would say nothing about the policy, and no real cgroup is that small.
const MAX_BATCH_SHARE: u64 = 16;

/// Capacity of the largest instance in pages, nearly 128 GiB. Together with as many ghosts and the
/// anchors of the lists, node numbers still fit in 26 bits, which is the space in a slot of the
/// index.
pub const MAX_CAPACITY_PAGES: u64 = (1 << 25) - 64;

/// Layout of `struct cx_vtable`.
#[repr(C)]
pub(super) struct Vtable {
    name: *const c_char,
    pub(super) node_bytes: u64,
    create: unsafe extern "C" fn(u64, u32, u64, *const u32) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    run: unsafe extern "C" fn(
        *mut c_void,
        *const u64,
        *const u32,
        *const u64,
        u64,
        *mut u8,
    ) -> c_int,
    forget: unsafe extern "C" fn(*mut c_void, u64),
    resize: unsafe extern "C" fn(*mut c_void, u64, u32) -> c_int,
    set_tunables: unsafe extern "C" fn(*mut c_void, *const u32),
    set_refusals: unsafe extern "C" fn(*mut c_void, u32),
    check: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    stats: unsafe extern "C" fn(*const c_void, *mut Stats),
    pub(super) resident: unsafe extern "C" fn(*const c_void, *mut u64),
    pub(super) adopt: unsafe extern "C" fn(*mut c_void, *const u64, u64) -> c_int,
    pub(super) log_evictions: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    pub(super) take_evictions: unsafe extern "C" fn(*mut c_void, *mut u64) -> *const Eviction,
    pub(super) begin_request: unsafe extern "C" fn(*mut c_void, u32, *const u64),
    pub(super) end_request: unsafe extern "C" fn(*mut c_void, u64),
    pub(super) holds: unsafe extern "C" fn(*mut c_void, u64) -> bool,
    pub(super) add_page: unsafe extern "C" fn(*mut c_void, u64, bool) -> c_int,
    pub(super) access_page: unsafe extern "C" fn(*mut c_void, u64),
}

/// Address of a vtable in the static library.
#[derive(Debug, Clone, Copy)]
pub(super) struct VtablePointer(pub(super) *const Vtable);

// SAFETY: the table is a constant; its functions only access the instance passed to them.
unsafe impl Send for VtablePointer {}
// SAFETY: as above.
unsafe impl Sync for VtablePointer {}

impl VtablePointer {
    pub(super) fn get(self) -> &'static Vtable {
        // SAFETY: the pointer is the address of a constant that lives as long as the program.
        unsafe { &*self.0 }
    }
}

/// Counts since the instance was created. Layout of `struct cx_stats`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Requests served.
    pub requests: u64,
    /// Requests for pages that were not resident.
    pub misses: u64,
    /// Pages evicted by reclaim.
    pub evictions: u64,
    /// Misses that the policy did not admit.
    pub refused: u64,
    /// Candidates proposed.
    pub proposed: u64,
    /// Candidates that the simulated kernel refused because it counts them as in use.
    pub rejected: u64,
    /// Pages that the simulated kernel chose itself because reclaim freed none: the policy proposed
    /// no candidate, or all candidates were refused.
    pub fallbacks: u64,
    /// Folios that the policy put on no list when they were added.
    pub unlisted: u64,
    /// Pages taken over from another instance.
    pub adopted: u64,
    /// Pages added by readahead, before any request for them.
    pub ahead: u64,
    /// Pages resident now.
    pub resident: u64,
    /// Ghost entries now.
    pub ghosts: u64,
    /// Memory of the instance in bytes: nodes, index, state.
    pub bytes: u64,
    /// Part of `bytes` that is the policy's state. Of a large state, only the pages that are in
    /// memory count.
    pub state_bytes: u64,
}

impl Stats {
    /// Returns the counts since `before`, with the present numbers of pages, ghosts and bytes.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            misses: self.misses - before.misses,
            evictions: self.evictions - before.evictions,
            refused: self.refused - before.refused,
            proposed: self.proposed - before.proposed,
            rejected: self.rejected - before.rejected,
            fallbacks: self.fallbacks - before.fallbacks,
            unlisted: self.unlisted - before.unlisted,
            adopted: self.adopted - before.adopted,
            ahead: self.ahead - before.ahead,
            ..*self
        }
    }
}

/// How to create an [`Instance`].
#[derive(Debug, Clone)]
pub struct InstanceConfig {
    /// Number of pages that may be resident, 1 or more.
    pub capacity_pages: u64,
    /// Number of candidates in one eviction request, 1 to 32.
    pub batch: u32,
    /// Seed of the policy's random numbers.
    pub seed: u64,
    /// Values of all tunables, in the order of the manifest; empty for the defaults. The values of
    /// the layer below ([`Policy::layer`]) may follow.
    pub tunables: Vec<u32>,
}

/// A run of requests, in order; optional columns are empty or as long as `keys`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Requests<'a> {
    /// Page keys.
    pub keys: &'a [u64],
    /// Task ids.
    pub tasks: &'a [u32],
    /// Times in nanoseconds.
    pub times_ns: &'a [u64],
}

impl<'a> Requests<'a> {
    /// Returns requests with keys only.
    #[must_use]
    pub fn of_keys(keys: &'a [u64]) -> Self {
        Self { keys, tasks: &[], times_ns: &[] }
    }

    /// Returns the first `count` requests and the remaining ones.
    #[must_use]
    pub fn split_at(self, count: usize) -> (Self, Self) {
        fn halves<T>(column: &[T], count: usize) -> (&[T], &[T]) {
            column.split_at(count.min(column.len()))
        }
        let (keys, later_keys) = halves(self.keys, count);
        let (tasks, later_tasks) = halves(self.tasks, count);
        let (times_ns, later_times) = halves(self.times_ns, count);
        let later = Self { keys: later_keys, tasks: later_tasks, times_ns: later_times };
        (Self { keys, tasks, times_ns }, later)
    }
}

/// A simulated page cache under one policy.
#[derive(Debug)]
pub struct Instance {
    pub(super) policy: &'static Policy,
    pub(super) sim: NonNull<c_void>,
    /// Number of evictions that the log has room for.
    pub(super) log_capacity: usize,
}

// SAFETY: the C side keeps no state outside the instance except a thread-local pointer that every
// entry point sets. An instance may therefore move between threads between calls, and `&mut self`
// serialises the calls.
unsafe impl Send for Instance {}

/// Returns the number of candidates in one eviction request of a cache of `capacity_pages` when
/// `batch` are configured: at most a sixteenth of the cache, at least one.
#[must_use]
pub fn effective_batch(batch: u32, capacity_pages: u64) -> u32 {
    let share = (capacity_pages / MAX_BATCH_SHARE).max(1);
    batch.min(u32::try_from(share).unwrap_or(u32::MAX))
}

impl Instance {
    /// Creates a cold cache.
    ///
    /// # Errors
    /// [`Error::Argument`] on a capacity outside 1..=[`MAX_CAPACITY_PAGES`], a batch outside 1..=32
    /// or tunables of the wrong number; [`Error::Policy`] when memory runs out or the policy's
    /// `init` fails.
    pub fn new(policy: &'static Policy, config: &InstanceConfig) -> Result<Self> {
        check_shape(config.capacity_pages, config.batch)?;
        let defaults = policy.manifest.tunable_defaults();
        let given = if config.tunables.is_empty() { &defaults } else { &config.tunables };
        let tunables = policy.simulated_values(given).ok_or_else(|| {
            let message = format!("{} values given, {} declared", given.len(), defaults.len());
            Error::argument("tunables", message)
        })?;
        let batch = effective_batch(config.batch, config.capacity_pages);
        // SAFETY: `tunables` has as many words as the C side copies.
        let sim = unsafe {
            (policy.vtable.get().create)(
                config.capacity_pages,
                batch,
                config.seed,
                tunables.as_ptr(),
            )
        };
        let sim = NonNull::new(sim).ok_or_else(|| failure(policy, "out of memory at init"))?;
        Ok(Self { policy, sim, log_capacity: 0 })
    }

    /// Returns the policy of this instance.
    #[must_use]
    pub fn policy(&self) -> &'static Policy {
        self.policy
    }

    /// Serves requests. With `hits`, sets one byte per request to 1 for a hit and to 0 for a miss.
    /// In debug builds, checks the invariants of the page cache afterwards.
    ///
    /// # Errors
    /// [`Error::Policy`] when memory runs out or an invariant is broken.
    ///
    /// # Panics
    /// When a column that is not empty is not as long as `keys`.
    pub fn run(&mut self, requests: Requests<'_>, hits: Option<&mut [u8]>) -> Result<()> {
        let count = requests.keys.len();
        assert!(requests.tasks.is_empty() || requests.tasks.len() == count);
        assert!(requests.times_ns.is_empty() || requests.times_ns.len() == count);
        assert!(hits.as_ref().is_none_or(|h| h.len() == count));
        let hits = hits.map_or(ptr::null_mut(), <[u8]>::as_mut_ptr);
        // SAFETY: the columns are as long as `count` or null, by the assertions above.
        let status = unsafe {
            (self.policy.vtable.get().run)(
                self.sim.as_ptr(),
                requests.keys.as_ptr(),
                column(requests.tasks),
                column(requests.times_ns),
                count as u64,
                hits,
            )
        };
        if status != 0 {
            return Err(failure(self.policy, "out of memory"));
        }
        if cfg!(debug_assertions) { self.check() } else { Ok(()) }
    }

    /// Drops a page and its ghost entry, as truncation does.
    pub fn forget(&mut self, key: u64) {
        // SAFETY: `sim` is a live instance of this table.
        unsafe { (self.policy.vtable.get().forget)(self.sim.as_ptr(), key) }
    }

    /// Changes the capacity and the number of candidates in one eviction request. A smaller
    /// capacity evicts at once, as lowering a limit does.
    ///
    /// # Errors
    /// As [`Instance::new`].
    pub fn resize(&mut self, capacity_pages: u64, batch: u32) -> Result<()> {
        check_shape(capacity_pages, batch)?;
        let batch = effective_batch(batch, capacity_pages);
        // SAFETY: `sim` is a live instance of this table.
        let status =
            unsafe { (self.policy.vtable.get().resize)(self.sim.as_ptr(), capacity_pages, batch) };
        if status == 0 { Ok(()) } else { Err(failure(self.policy, "out of memory")) }
    }

    /// Refuses this many in a million candidates at random from now on. The kernel refuses
    /// candidates that something else uses at that moment, and requests as many again.
    pub fn set_refusals(&mut self, per_million: u32) {
        // SAFETY: `sim` is a live instance of this policy.
        unsafe { (self.policy.vtable.get().set_refusals)(self.sim.as_ptr(), per_million) }
    }

    /// Sets all tunables of the running policy, given as in [`InstanceConfig::tunables`].
    ///
    /// # Errors
    /// [`Error::Argument`] on the wrong number of values.
    pub fn set_tunables(&mut self, tunables: &[u32]) -> Result<()> {
        let values = self.policy.simulated_values(tunables).ok_or_else(|| {
            Error::argument("tunables", format!("{} values given", tunables.len()))
        })?;
        // SAFETY: `values` has as many words as the C side copies.
        unsafe { (self.policy.vtable.get().set_tunables)(self.sim.as_ptr(), values.as_ptr()) }
        Ok(())
    }

    /// Walks the whole instance and checks the invariants of the page cache.
    ///
    /// # Errors
    /// [`Error::Policy`] that names the broken invariant.
    pub fn check(&mut self) -> Result<()> {
        // SAFETY: `sim` is a live instance; the result is null or a constant string.
        let broken = unsafe {
            let broken = (self.policy.vtable.get().check)(self.sim.as_ptr());
            (!broken.is_null()).then(|| CStr::from_ptr(broken).to_string_lossy().into_owned())
        };
        match broken {
            Some(message) => Err(failure(self.policy, &message)),
            None => Ok(()),
        }
    }

    /// Returns the counts since creation.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: both pointers are valid, and the layouts agree.
        unsafe { (self.policy.vtable.get().stats)(self.sim.as_ptr(), &raw mut stats) }
        stats
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: `sim` came from `create` and is not used afterwards.
        unsafe { (self.policy.vtable.get().destroy)(self.sim.as_ptr()) }
    }
}

fn column<T>(values: &[T]) -> *const T {
    if values.is_empty() { ptr::null() } else { values.as_ptr() }
}

pub(super) fn failure(policy: &Policy, message: &str) -> Error {
    Error::Policy { policy: policy.manifest.name.clone(), message: message.into() }
}

fn check_shape(capacity_pages: u64, batch: u32) -> Result<()> {
    if !(1..=MAX_CAPACITY_PAGES).contains(&capacity_pages) {
        let message = format!("{capacity_pages} pages are not in 1..={MAX_CAPACITY_PAGES}");
        return Err(Error::argument("size", message));
    }
    if !(1..=KERNEL_BATCH).contains(&batch) {
        return Err(Error::argument("batch", format!("{batch} is not in 1..={KERNEL_BATCH}")));
    }
    Ok(())
}
