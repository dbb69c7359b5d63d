// SPDX-License-Identifier: Apache-2.0
//! The readahead policy `windowing`: what it is told, and what it noted.

use crate::cgroup::Cgroup;
use crate::error::Result;
use crate::policy::{self, Attached};

/// Decisions that it has room to note.
pub const NOTES: usize = 256;

/// `struct windowing_state` of tests/kernel/policies/windowing.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct State {
    pub decides: u64,
    pub from_file_start: u64,
    pub start: u64,
    pub size: u64,
    pub async_size: u64,
    pub stride: i64,
    pub times: u64,
    pub asked: [u64; 4],
    pub noted: u64,
    pub notes: [u64; NOTES],
    pub before: u64,
    pub after: u64,
    pub used: u64,
    pub queue_start: u64,
    pub queue_size: u64,
    pub queue_times: u64,
    pub queued: u64,
}

/// What it is told to do with every decision.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    pub from_file_start: bool,
    pub start: u64,
    pub size: u64,
    pub async_size: u64,
    pub stride: i64,
    pub times: u64,
}

/// What it noted so far.
///
/// # Errors
/// When its state is not what it should be.
pub fn state(attached: &Attached) -> Result<State> {
    // SAFETY: mapped as long as the policy is open.
    Ok(unsafe { attached.policy().state::<State>()?.read_volatile() })
}

/// Has it decide so from now on.
///
/// # Errors
/// As [`state`].
pub fn tell(attached: &Attached, window: Window) -> Result<()> {
    let state = attached.policy().state::<State>()?;
    // SAFETY: as above.
    unsafe {
        (&raw mut (*state).from_file_start).write_volatile(u64::from(window.from_file_start));
        (&raw mut (*state).start).write_volatile(window.start);
        (&raw mut (*state).size).write_volatile(window.size);
        (&raw mut (*state).async_size).write_volatile(window.async_size);
        (&raw mut (*state).stride).write_volatile(window.stride);
        (&raw mut (*state).times).write_volatile(window.times);
        (&raw mut (*state).decides).write_volatile(1);
    }
    Ok(())
}

/// Has it ask for pages beside the window with every decision, so many times.
///
/// # Errors
/// As [`state`].
pub fn tell_queue(attached: &Attached, start: u64, size: u64, times: u64) -> Result<()> {
    let state = attached.policy().state::<State>()?;
    // SAFETY: as above.
    unsafe {
        (&raw mut (*state).queue_start).write_volatile(start);
        (&raw mut (*state).queue_size).write_volatile(size);
        (&raw mut (*state).queue_times).write_volatile(times);
    }
    Ok(())
}

/// Loads and attaches it.
///
/// # Errors
/// When the kernel refuses it.
pub fn attach(cgroup: &Cgroup) -> Result<Attached> {
    policy::load_prefetch("windowing", cgroup)?.attach()
}
