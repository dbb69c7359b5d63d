// SPDX-License-Identifier: Apache-2.0
//! The state that an agent needs after it was killed: the last epoch, the lease, the last
//! incarnation, and the changes that are not confirmed.
//!
//! The file is replaced as a whole, and the new state is on disk before it takes effect: the text
//! is written to another file, which is synchronised and renamed over the old one, and then the
//! folder is synchronised.

use super::unconfirmed::Unconfirmed;
use crate::damaged::{self, Found, copy_aside};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

const FILE: &str = "agent.json";
const LOCK: &str = "agent.lock";

/// When to return tenants to their first settings unless a newer plan extends the lease. It is in
/// wall time, so that it applies across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The end of the lease, milliseconds since 1970.
    pub deadline_ms: u64,
    /// Length of the lease when it was granted. If the clock is set back, the rest of the lease is
    /// at most this.
    pub length_ms: u64,
}

impl Lease {
    /// The rest of the lease at `wall_ms`, milliseconds.
    #[must_use]
    pub fn left_ms(&self, wall_ms: u64) -> u64 {
        self.deadline_ms.saturating_sub(wall_ms).min(self.length_ms)
    }
}

/// The state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The greatest epoch that was ever applied; 0 before the first.
    pub last_epoch: u64,
    /// The lease in force.
    pub lease: Option<Lease>,
    /// The incarnation of the last start.
    pub incarnation: u64,
    /// Changes on trial. The key is left out if there are none, so that an older agent can read the
    /// state of a newer one.
    #[serde(default, skip_serializing_if = "Unconfirmed::is_empty")]
    pub unconfirmed: Unconfirmed,
}

impl State {
    /// The state after a release: no lease, and nothing on trial.
    #[must_use]
    pub fn released(self) -> Self {
        Self { lease: None, unconfirmed: Unconfirmed::default(), ..self }
    }
}

/// The directory of the state. One agent at a time has it.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens `dir`, which is created if it is missing, and reads the state.
    ///
    /// A file that cannot be read or parsed is copied aside. Its lease and its changes on trial are
    /// then unknown, so the lease counts as ended and tenants are restored. The file stays until the
    /// next state replaces it: a failed start does not lose it.
    ///
    /// # Errors
    /// Returns [`Error::AgentRuns`], or [`Error::Io`] if the directory or its lock cannot be opened,
    /// or this process may not read the file.
    pub fn open(dir: &Path) -> Result<(Self, State)> {
        fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let path = dir.join(LOCK);
        let lock = or_unwritten(&path, File::create(&path)).map_err(Error::io(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::AgentRuns(dir.into())),
            Err(TryLockError::Error(error)) => return Err(Error::io(&path)(error)),
        }
        let state = read(&dir.join(FILE))?;
        Ok((Self { dir: dir.into(), _lock: lock }, state))
    }

    /// Replaces the state, which is on disk when this returns.
    ///
    /// # Errors
    /// Returns [`Error::Io`]. The old state is still there then.
    pub fn write(&self, state: &State) -> Result<()> {
        let path = self.dir.join(FILE);
        let new = path.with_extension("new");
        let text = serde_json::to_vec(state).map_err(|e| Error::format(&path, e.to_string()))?;
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            damaged::replace(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(Error::io(&path))
    }
}

/// Opens the existing lock file as it is if it cannot be written, which locks as well: the file
/// system is read-only, or the disk is full or damaged. If this process may not write it, the
/// program was started as the wrong user.
fn or_unwritten(path: &Path, created: io::Result<File>) -> io::Result<File> {
    match created {
        Err(error) if error.kind() != ErrorKind::PermissionDenied => {
            File::open(path).map_err(|_| error)
        }
        created => created,
    }
}

fn read(path: &Path) -> Result<State> {
    let parse = |bytes: &[u8]| {
        serde_json::from_slice(bytes)
            .map_err(|error| format!("not a state of this program ({error})"))
    };
    Ok(match damaged::read(path, parse)? {
        Found::Nothing => State::default(),
        Found::Content(state) => state,
        Found::Damaged(reason) => {
            copy_aside(path, &reason);
            State { lease: Some(Lease { deadline_ms: 0, length_ms: 0 }), ..State::default() }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            last_epoch: u64::MAX,
            lease: Some(Lease { deadline_ms: 7_000, length_ms: 2_000 }),
            incarnation: 5,
            ..State::default()
        }
    }

    #[test]
    fn a_written_state_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        let (store, found) = Store::open(&below).unwrap();
        assert_eq!(found, State::default());
        store.write(&state()).unwrap();
        drop(store);
        assert_eq!(Store::open(&below).unwrap().1, state());
    }

    #[test]
    fn half_a_file_of_a_killed_agent_is_no_matter() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(dir.path()).unwrap();
        store.write(&state()).unwrap();
        fs::write(dir.path().join("agent.new"), b"{\"last_ep").unwrap();
        drop(store);
        let (store, found) = Store::open(dir.path()).unwrap();
        assert_eq!(found, state());
        store.write(&State::default()).unwrap();
    }

    #[test]
    fn two_agents_do_not_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _held = Store::open(dir.path()).unwrap();
        assert!(matches!(Store::open(dir.path()), Err(Error::AgentRuns(_))));
    }

    #[test]
    fn on_a_disk_that_takes_no_writes_what_was_kept_is_locked_all_the_same() {
        for code in [libc::EROFS, libc::ENOSPC, libc::EIO] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(LOCK);
            let refused = || Err(io::Error::from_raw_os_error(code));
            let error = or_unwritten(&path, refused()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(code), "no agent was ever there");
            let (store, _) = Store::open(dir.path()).unwrap();
            let lock = or_unwritten(&path, refused()).unwrap();
            assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
            drop(store);
            lock.try_lock().unwrap();
            assert!(matches!(Store::open(dir.path()), Err(Error::AgentRuns(_))));
        }
    }

    #[test]
    fn a_lock_that_this_user_may_not_write_is_told() {
        let dir = tempfile::tempdir().unwrap();
        drop(Store::open(dir.path()).unwrap());
        let refused = Err(io::Error::from_raw_os_error(libc::EACCES));
        assert!(or_unwritten(&dir.path().join(LOCK), refused).is_err());
    }

    #[test]
    fn a_broken_file_is_put_aside_and_its_lease_counts_as_over() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", "{\"last_epoch\": -1}", "{\"epoch\": 1}"] {
            fs::write(dir.path().join(FILE), text).unwrap();
            let (_, found) = Store::open(dir.path()).unwrap();
            assert_eq!(found.lease.map(|lease| lease.left_ms(1)), Some(0));
            let aside = dir.path().join("agent.json.damaged");
            assert_eq!(fs::read_to_string(aside).unwrap(), text);
            assert_eq!(fs::read_to_string(dir.path().join(FILE)).unwrap(), text);
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_keeps_the_old_state() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(dir.path()).unwrap();
        store.write(&state()).unwrap();
        // A folder in the place of the new file: no write can open it, not even by root.
        fs::create_dir(dir.path().join("agent.new")).unwrap();
        let message = store.write(&State::default()).unwrap_err().to_string();
        assert!(message.contains("agent.json: "), "{message}");
        drop(store);
        assert_eq!(Store::open(dir.path()).unwrap().1, state());
    }

    #[test]
    fn a_clock_set_back_makes_a_lease_no_longer() {
        let lease = Lease { deadline_ms: 7_000, length_ms: 2_000 };
        assert_eq!([5_500, 7_000, 9_000, 0].map(|now| lease.left_ms(now)), [1_500, 0, 0, 2_000]);
    }
}
