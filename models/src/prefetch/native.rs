// SPDX-License-Identifier: Apache-2.0
//! Structures shared with the C code of a policy. `bpf/include/prefetch.bpf.h` and
//! `bpf/include/native/prefetch.h` declare the same layouts.

use super::cache::PageCache;
use super::registry::Prefetcher;
use std::ffi::c_void;

/// `struct cache_ext_window_ctx`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowContext {
    pub file: u64,
    pub index: u64,
    pub nr_wanted: u64,
    pub file_pages: u64,
    pub prev_index: u64,
    pub last_start: u64,
    pub last_size: u32,
    pub last_async_size: u32,
    pub max_pages: u32,
    pub trigger: u32,
    pub folio_pages: u64,
    pub start: u64,
    pub size: u32,
    pub async_size: u32,
    pub stride: i64,
    pub times: u32,
}

type Cached = extern "C" fn(*mut c_void, *const WindowContext) -> u64;
type Prefetch = extern "C" fn(*mut c_void, *const WindowContext, u64, u32) -> i32;

/// Largest number of queued requests outside the window, as in the kernel.
const QUEUE: usize = 64;
const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;

/// Pages that a policy requests outside the window: the first page and the number of pages of each
/// request.
pub(super) type Requests = Vec<(u64, u64)>;

/// `struct cx_prefetch_instance`.
#[repr(C)]
pub(super) struct NativeInstance {
    state: *mut c_void,
    tunables: *const u32,
    cache: *mut c_void,
    cached_before: Cached,
    cached_after: Cached,
    queue: *mut c_void,
    prefetch: Prefetch,
    task: u32,
}

/// `struct cx_prefetch_vtable`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Vtable {
    pub state_bytes: unsafe extern "C" fn() -> u64,
    pub decide: unsafe extern "C" fn(*mut NativeInstance, *mut WindowContext) -> i32,
    pub used: unsafe extern "C" fn(*mut NativeInstance, u64, u64),
}

/// A constant vtable in the C code.
#[derive(Debug, Clone, Copy)]
pub(super) struct VtablePointer(pub *const Vtable);

// SAFETY: the table is constant.
unsafe impl Send for VtablePointer {}
// SAFETY: as above.
unsafe impl Sync for VtablePointer {}

impl VtablePointer {
    fn get(&self) -> &'static Vtable {
        // SAFETY: the pointer is to a static of the C code.
        unsafe { &*self.0 }
    }
}

/// A policy with its state.
#[derive(Debug)]
pub(super) struct Instance {
    vtable: VtablePointer,
    /// A vector of 8-byte words, which aligns the state as its C declaration asserts.
    state: Vec<u64>,
    tunables: Vec<u32>,
}

extern "C" fn cached_before(cache: *mut c_void, window: *const WindowContext) -> u64 {
    // SAFETY: `Instance::native` received both, and they are valid for the duration of that call.
    let (cache, window) = unsafe { (&*cache.cast::<PageCache>(), &*window) };
    cache.cached_before(window)
}

extern "C" fn cached_after(cache: *mut c_void, window: *const WindowContext) -> u64 {
    // SAFETY: as above.
    let (cache, window) = unsafe { (&*cache.cast::<PageCache>(), &*window) };
    cache.cached_after(window)
}

extern "C" fn prefetch(
    queue: *mut c_void,
    window: *const WindowContext,
    start: u64,
    size: u32,
) -> i32 {
    // SAFETY: `Instance::native` received both, they are valid for the duration of that call, and
    // nothing else uses the queue meanwhile.
    let (queue, window) = unsafe { (&mut *queue.cast::<Requests>(), &*window) };
    if size == 0 || start >= window.file_pages {
        return -EINVAL;
    }
    if queue.len() >= QUEUE {
        return -ENOSPC;
    }
    queue.push((start, u64::from(size)));
    0
}

impl Instance {
    /// Creates a policy with these tunables and empty state.
    pub(super) fn new(policy: &Prefetcher, tunables: Vec<u32>) -> Self {
        let vtable = policy.vtable;
        // SAFETY: the function has no arguments and returns a constant.
        let bytes = unsafe { (vtable.get().state_bytes)() } as usize;
        // A policy without tunables gets a pointer too, but never reads from it.
        Self { vtable, state: vec![0; bytes.div_ceil(8)], tunables }
    }

    fn native(&mut self, cache: &PageCache, task: u32, queue: &mut Requests) -> NativeInstance {
        NativeInstance {
            state: self.state.as_mut_ptr().cast(),
            tunables: self.tunables.as_ptr(),
            cache: std::ptr::from_ref(cache).cast_mut().cast(),
            cached_before,
            cached_after,
            queue: std::ptr::from_mut(queue).cast(),
            prefetch,
            task,
        }
    }

    /// Asks the policy for a window. Returns false if the policy leaves the decision to the kernel.
    /// Requests for pages outside the window go to `queue`.
    pub(super) fn decide(
        &mut self,
        cache: &PageCache,
        task: u32,
        window: &mut WindowContext,
        queue: &mut Requests,
    ) -> bool {
        let mut native = self.native(cache, task, queue);
        // SAFETY: everything that the instance points to outlives the call, and the cache is only
        // read.
        unsafe { (self.vtable.get().decide)(&raw mut native, window) > 0 }
    }

    /// Notifies the policy of the first access to a page that was read ahead.
    pub(super) fn used(&mut self, cache: &PageCache, task: u32, file: u64, index: u64) {
        let mut queue = Requests::new();
        let mut native = self.native(cache, task, &mut queue);
        // SAFETY: as above.
        unsafe { (self.vtable.get().used)(&raw mut native, file, index) };
    }
}
