// SPDX-License-Identifier: Apache-2.0
//! The policy `hostile`: what it is to do, and what came of it.

use crate::cgroup::Cgroup;
use crate::error::Result;
use crate::files::TestFile;
use crate::policy::{self, Attached, Policy};

/// A misdeed; `enum mode` of tests/kernel/policies/hostile.bpf.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Mode {
    Honest,
    Silent,
    Same,
    Held,
    Scanning,
    ForeignLists,
    Slow,
    FailingInit,
    PositiveInit,
}

/// `struct hostile_state`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct State {
    list: u64,
    pub mode: u64,
    device: u64,
    inode: u64,
    pub holding: u64,
    pub release: u64,
    pub spin_ns: u64,
    deadline_ns: u64,
    pub succeeded: u64,
    pub refused: u64,
    pub proposed: u64,
}

/// Its state, shared with the kernel.
pub struct Handle(*mut State);

impl Handle {
    /// The state of a policy, which must outlive this.
    ///
    /// # Errors
    /// When it is not that of this policy.
    pub fn of(policy: &Policy) -> Result<Self> {
        Ok(Self(policy.state::<State>()?))
    }

    /// What is there now.
    #[must_use]
    pub fn get(&self) -> State {
        // SAFETY: mapped as long as the policy is open.
        unsafe { self.0.read_volatile() }
    }

    /// Chooses the misdeed.
    pub fn set_mode(&self, mode: Mode) {
        // SAFETY: mapped as long as the policy is open.
        unsafe { (&raw mut (*self.0).mode).write_volatile(mode as u64) };
    }

    /// Time that each request takes in `Slow`.
    pub fn set_spin_ns(&self, spin_ns: u64) {
        // SAFETY: mapped as long as the policy is open.
        unsafe { (&raw mut (*self.0).spin_ns).write_volatile(spin_ns) };
    }

    /// The file whose folios are held in `Held`.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_file(&self, file: &TestFile) -> Result<()> {
        let (device, inode) = file.identity()?;
        // SAFETY: mapped as long as the policy is open.
        unsafe {
            (&raw mut (*self.0).device).write_volatile(device);
            (&raw mut (*self.0).inode).write_volatile(inode);
        }
        Ok(())
    }

    /// Ends `Held`.
    pub fn release(&self) {
        // SAFETY: mapped as long as the policy is open.
        unsafe { (&raw mut (*self.0).release).write_volatile(1) };
    }
}

/// Attaches it, well-behaved until told otherwise.
///
/// # Errors
/// When the kernel refuses it.
pub fn attach(cgroup: &Cgroup) -> Result<(Attached, Handle)> {
    let attached = policy::attach("hostile", cgroup)?;
    let handle = Handle::of(attached.policy())?;
    handle.set_mode(Mode::Honest);
    Ok((attached, handle))
}
