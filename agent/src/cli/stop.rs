// SPDX-License-Identifier: Apache-2.0
//! SIGINT and SIGTERM end a command that would go on, after what it is doing.

use super::Failure;
use cachepilot_agent::Error;
use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_signal: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
}

/// From now on signals are noted instead of ending the process.
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

/// Whether one came.
pub fn is_wanted() -> bool {
    STOPPED.load(Ordering::Relaxed)
}
