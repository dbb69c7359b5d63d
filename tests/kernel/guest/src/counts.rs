// SPDX-License-Identifier: Apache-2.0
//! The policy `counting`: what it counted.

use crate::cgroup::Cgroup;
use crate::ensure;
use crate::error::Result;
use crate::files::TestFile;
use crate::policy::{self, Attached, Policy};

const MAX_ORDER: usize = 8192;

/// Calls of hooks; `enum event` of tests/kernel/policies/counting.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    pub added: u64,
    pub added_pages: u64,
    pub first: u64,
    pub again: u64,
    pub evicted: u64,
    pub removed: u64,
    pub removed_pages: u64,
    pub added_twice: u64,
    pub accessed_unknown: u64,
    pub removed_unknown: u64,
}

/// `struct counting_state`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counts {
    list: u64,
    device: u64,
    inode: u64,
    pub inits: u64,
    pub exits: u64,
    pub requests: u64,
    pub all: Events,
    pub watched: Events,
    order_len: u64,
    order: [u64; MAX_ORDER],
}

impl Counts {
    /// Indices of the watched file's folios as they were added; fails when there were too many.
    ///
    /// # Errors
    /// When not all were noted.
    pub fn order(&self) -> Result<&[u64]> {
        let len = usize::try_from(self.order_len).unwrap_or(usize::MAX);
        ensure!(len <= MAX_ORDER, "{len} folios were added, of which {MAX_ORDER} were noted");
        Ok(&self.order[..len])
    }

    /// Fails when an event came twice, or for a folio that was not there.
    ///
    /// # Errors
    /// Which it was.
    pub fn check_sane(&self) -> Result<()> {
        let all = &self.all;
        ensure!(
            all.added_twice == 0 && all.accessed_unknown == 0 && all.removed_unknown == 0,
            "folios added twice, accessed or removed without being there: {all:?}"
        );
        Ok(())
    }
}

/// Loads `counting` for a cgroup, which counts the file apart.
///
/// # Errors
/// When the kernel refuses it.
pub fn load(cgroup: &Cgroup, file: &TestFile) -> Result<Policy> {
    let policy = policy::load("counting", cgroup)?;
    let state = policy.state::<Counts>()?;
    let (device, inode) = file.identity()?;
    // SAFETY: the state is mapped, and the policy does not run yet.
    unsafe {
        (*state).device = device;
        (*state).inode = inode;
    }
    Ok(policy)
}

/// Loads and attaches it.
///
/// # Errors
/// When the kernel refuses it.
pub fn attach(cgroup: &Cgroup, file: &TestFile) -> Result<Attached> {
    let attached = load(cgroup, file)?.attach()?;
    cgroup.wait_for_state("running")?;
    Ok(attached)
}

/// What it counted so far.
///
/// # Errors
/// When its state is not what it should be.
pub fn of(policy: &Policy) -> Result<Box<Counts>> {
    let state = policy.state::<Counts>()?;
    // SAFETY: the state is mapped as long as the policy is open.
    Ok(Box::new(unsafe { state.read_volatile() }))
}

impl Policy {
    /// Forgets what was counted.
    ///
    /// # Errors
    /// When its state is not that of `counting`.
    pub fn reset(&self) -> Result<()> {
        let state = self.state::<Counts>()?;
        // SAFETY: the state is mapped, and nobody else counts at this time.
        unsafe {
            (&raw mut (*state).all).write_volatile(Events::default());
            (&raw mut (*state).watched).write_volatile(Events::default());
        }
        Ok(())
    }
}
