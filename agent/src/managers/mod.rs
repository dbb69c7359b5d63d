// SPDX-License-Identifier: Apache-2.0
//! Other programs that manage the memory of this host's cgroups (systemd and its out-of-memory
//! daemon, the kubelet and the container runtime, autoscalers and others), and the names that they
//! have for cgroups.
//!
//! A thread of its own queries them, so that a bus or a runtime that hangs delays nothing else.

#[cfg(test)]
pub(crate) mod played;
pub mod pods;
pub mod programs;
pub mod systemd;
mod watch;

use crate::error::{Error, Result};
use crate::wire::Workload;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use systemd::Systemd;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A finding about another program that manages memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The program, in one word.
    pub key: String,
    /// Which program does what, for a person.
    pub message: String,
}

/// How the other programs are reached.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `/proc`, or a folder in its place.
    pub proc: PathBuf,
    /// Whether limits of systemd units are set through systemd.
    pub systemd: bool,
    /// Sockets at which the container runtime may listen; the first one that exists is used.
    pub sockets: Vec<PathBuf>,
}

/// What is known about one tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfTenant {
    /// Other programs that manage it.
    pub findings: Vec<Finding>,
    /// Its names in Kubernetes.
    pub workload: Option<Workload>,
}

/// Everything that was found.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Findings about the host.
    pub host: Vec<Finding>,
    /// Findings by cgroup.
    pub tenants: BTreeMap<String, OfTenant>,
}

#[derive(Debug, Default)]
struct Shared {
    tenants: Mutex<Arc<Vec<String>>>,
    seen: Mutex<Arc<Seen>>,
}

/// Queries the other programs in the background.
#[derive(Debug)]
pub struct Managers {
    shared: Arc<Shared>,
    systemd: Option<Arc<Systemd>>,
    runtime: Handle,
    /// The thread ends when this is dropped.
    _end: oneshot::Sender<()>,
}

impl Managers {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be created.
    pub fn start(settings: Settings) -> Result<Self> {
        let systemd = settings.systemd.then(|| Arc::new(Systemd::default()));
        Self::with(settings, systemd)
    }

    /// Starts the thread with the given systemd.
    ///
    /// # Errors
    /// As [`Managers::start`].
    pub fn with(settings: Settings, systemd: Option<Arc<Systemd>>) -> Result<Self> {
        const WHAT: &str = "a thread that asks who else manages memory";
        let (end, ended) = oneshot::channel();
        let (started, starts) = sync_channel(1);
        let shared = Arc::<Shared>::default();
        let (asked, watched) = (systemd.clone(), Arc::clone(&shared));
        let watch = move || {
            // This thread creates and drops the runtime, as the calling thread may run a runtime
            // itself.
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(runtime.handle().clone()));
            runtime.block_on(async {
                tokio::select! {
                    () = watch::run(&settings, asked.as_deref(), &watched) => {}
                    _ = ended => {}
                }
            });
            runtime.shutdown_background();
        };
        thread::Builder::new().name("managers".into()).spawn(watch).map_err(Error::kernel(WHAT))?;
        let no_answer = || io::Error::other("it ended at once");
        let runtime = starts.recv().unwrap_or_else(|_| Err(no_answer()));
        let runtime = runtime.map_err(Error::kernel(WHAT))?;
        Ok(Self { shared, systemd, runtime, _end: end })
    }

    /// Sets the tenants, by cgroup.
    pub fn follow<'a>(&self, tenants: impl Iterator<Item = &'a str> + Clone) {
        let mut known = self.shared.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().map(String::as_str).eq(tenants.clone()) {
            *known = Arc::new(tenants.map(Into::into).collect());
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Access to systemd units; `None` unless limits are set through systemd.
    #[must_use]
    pub fn units(&self) -> Option<Units> {
        let systemd = Arc::clone(self.systemd.as_ref()?);
        Some(Units { systemd, runtime: self.runtime.clone() })
    }
}

/// Limits of units, for threads that may block.
#[derive(Debug, Clone)]
pub struct Units {
    systemd: Arc<Systemd>,
    runtime: Handle,
}

impl Units {
    /// Sets the limit of a cgroup that is a unit. Returns false if it is not one, or if systemd is
    /// not running.
    ///
    /// # Errors
    /// Returns systemd's error, or an error if it does not answer in time.
    pub fn set_memory_high(&self, cgroup: &str, bytes: Option<u64>) -> io::Result<bool> {
        let (systemd, cgroup) = (Arc::clone(&self.systemd), cgroup.to_owned());
        self.wait(systemd::CALL_TIMEOUT, async move {
            let Some(unit) = systemd.unit_of(&cgroup).await? else { return Ok(false) };
            systemd.set_memory_high(&unit.name, bytes).await.map(|()| true)
        })
    }

    /// Requests to give a unit whose cgroup is gone its first limit, see [`Systemd::forget`].
    #[must_use]
    pub fn forget(&self, cgroup: &str, bytes: Option<u64>) -> Asked<bool> {
        let (systemd, cgroup) = (Arc::clone(&self.systemd), cgroup.to_owned());
        self.ask(async move { systemd.forget(&cgroup, bytes).await })
    }

    /// Sends a request from the thread of the managers.
    fn ask<T: Send + 'static>(
        &self,
        asking: impl Future<Output = zbus::Result<T>> + Send + 'static,
    ) -> Asked<T> {
        let (answered, answer) = sync_channel(1);
        self.runtime.spawn(async move { answered.send(asking.await) });
        Asked(answer)
    }

    /// Sends a request and waits for its answer, at most for `patience`. A thread that runs an
    /// async runtime may call this, too.
    fn wait<T: Send + 'static>(
        &self,
        patience: Duration,
        asking: impl Future<Output = zbus::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let answer = self.ask(asking).answer(Instant::now() + patience);
        answer.unwrap_or_else(|| Err(no_answer()))
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "systemd does not answer")
}

/// A request to systemd.
#[derive(Debug)]
pub struct Asked<T>(Receiver<zbus::Result<T>>);

impl<T> Asked<T> {
    /// Waits until `until` for the answer. Returns systemd's answer, or an error if there will
    /// never be one; `None` if it has yet to come.
    #[must_use]
    pub fn answer(&self, until: Instant) -> Option<io::Result<T>> {
        match self.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(answer)) => Some(Ok(answer)),
            Ok(Err(error)) => Some(Err(io::Error::other(format!("systemd: {error}")))),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(no_answer())),
        }
    }
}
