// SPDX-License-Identifier: Apache-2.0
//! SIGTERM and SIGINT end the agent; policies and limits stay.

use crate::error::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// A receiver that turns true after the first SIGTERM or SIGINT. Must be called within a runtime.
///
/// # Errors
/// Returns [`Error::Kernel`] if the system does not allow listening for signals.
pub fn on_signals() -> Result<watch::Receiver<bool>> {
    let listen = |kind| signal(kind).map_err(Error::kernel("signals"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("ending; policies and limits stay as they are");
        // Nobody receives it when the agent has ended by itself.
        let _ = stop.send(true);
    });
    Ok(stopped)
}
