// SPDX-License-Identifier: Apache-2.0
//! The policy `hostile`: what it is to do, and what came of it.

use crate::cgroup::Cgroup;
use crate::child::{self, Child};
use crate::ensure;
use crate::error::Result;
use crate::files::TestFile;
use crate::parameter::{Parameter, WATCHDOG_MS};
use crate::policy::{self, Attached, Policy};
use std::thread;
use std::time::{Duration, Instant};

const FILLER_PAGES: u64 = 2048;

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
    Shown,
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
    pub longest_ns: u64,
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

/// A policy that holds folios of a file in a request, on the way in another process.
pub struct Holding {
    child: Child,
    handle: Handle,
    _filler: TestFile,
    _watchdog: Parameter,
}

/// Has the policy hold four folios of the file in a request of another process.
///
/// # Errors
/// When it holds none in time.
pub fn hold(cgroup: &Cgroup, file: &TestFile, handle: Handle) -> Result<Holding> {
    hold_in(Mode::Held, cgroup, file, handle)
}

/// The same in a mode of choice: `Held`, or `Shown`.
///
/// # Errors
/// When it holds none in time.
pub fn hold_in(mode: Mode, cgroup: &Cgroup, file: &TestFile, handle: Handle) -> Result<Holding> {
    let watchdog = Parameter::set(WATCHDOG_MS, "100000")?;
    handle.set_file(file)?;
    // A request looks at so many folios as there are, and spins on each.
    let filler = TestFile::create("to-spin-on", FILLER_PAGES)?;
    child::run(cgroup, || {
        file.read_all()?;
        filler.read_all()
    })?;
    handle.set_mode(mode);
    // There may not be so much left to reclaim once the folios that are held are gone.
    let child = child::spawn(cgroup, || {
        let _ = cgroup.write("memory.reclaim", "128K");
        Ok(())
    })?;
    let start = Instant::now();
    while handle.get().holding == 0 {
        ensure!(start.elapsed() < Duration::from_secs(10), "no folio is held: {:?}", handle.get());
        thread::sleep(Duration::from_millis(1));
    }
    Ok(Holding { child, handle, _filler: filler, _watchdog: watchdog })
}

impl Holding {
    /// Ends the request, and waits until it is over.
    ///
    /// # Errors
    /// When it fails.
    pub fn end(self) -> Result<State> {
        self.handle.release();
        self.child.wait()?;
        Ok(self.handle.get())
    }

    /// Lets it propose them, which should be refused, and waits until the request is over.
    ///
    /// # Errors
    /// When they are not refused.
    pub fn finish(self) -> Result<State> {
        let state = self.end()?;
        ensure!(
            state.refused == 4 && state.succeeded == 0,
            "four folios should have been refused: {state:?}"
        );
        Ok(state)
    }
}
