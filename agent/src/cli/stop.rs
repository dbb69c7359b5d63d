// SPDX-License-Identifier: Apache-2.0
//! SIGINT and SIGTERM end a long-running command after its current step.

use super::Failure;
use cachepilot_agent::Error;
use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
}

/// From now on, signals are recorded instead of ending the process.
pub fn on_signals() -> Result<(), Failure> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic.
        let old = unsafe { libc::signal(signal, stop as *const () as libc::sighandler_t) };
        if old == libc::SIG_ERR {
            return Err(Error::kernel("signal")(std::io::Error::last_os_error()).into());
        }
    }
    Ok(())
}

/// Whether a signal arrived.
pub fn is_wanted() -> bool {
    STOPPED.load(Ordering::Relaxed)
}
