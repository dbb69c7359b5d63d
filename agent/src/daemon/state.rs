// SPDX-License-Identifier: Apache-2.0
//! What the agent must know after it was killed: the last epoch, the lease, the last incarnation and
//! the changes that are not confirmed.
//!
//! A file is replaced as a whole, and safe on disk before what it says begins to hold: the new text
//! goes to another file, which is synchronised, renamed over the old one, and then the folder is
//! synchronised.

use super::unconfirmed::Unconfirmed;
use crate::damaged::copy_aside;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

const FILE: &str = "agent.json";
const LOCK: &str = "agent.lock";

/// When to return to the defaults unless that is put off, in wall time so that it also holds
/// across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Milliseconds since 1970.
    pub deadline_ms: u64,
    /// How long it was when given: a clock that was set back makes it no longer.
    pub length_ms: u64,
}

impl Lease {
    /// What is left at `wall_ms`, milliseconds.
    #[must_use]
    pub fn left_ms(&self, wall_ms: u64) -> u64 {
        self.deadline_ms.saturating_sub(wall_ms).min(self.length_ms)
    }
}

/// The state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The greatest epoch that was ever applied, 0 before the first.
    pub last_epoch: u64,
    /// The lease that holds.
    pub lease: Option<Lease>,
    /// That of the last start.
    pub incarnation: u64,
    /// Left out when empty, so that an agent before this one reads what is left of a later one.
    #[serde(default, skip_serializing_if = "Unconfirmed::is_empty")]
    pub unconfirmed: Unconfirmed,
}

impl State {
    /// The same once all is as it was without the agent: no lease is left to keep, and nothing is on
    /// trial.
    #[must_use]
    pub fn released(self) -> Self {
        Self { lease: None, unconfirmed: Unconfirmed::default(), ..self }
    }
}

/// Where the state is kept. One agent at a time holds it.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens `dir`, which is made when it is missing, and reads what is there.
    ///
    /// A file that this program cannot read is copied aside. What its lease and the changes on trial
    /// were is not known then: the lease counts as over, so that what is held is given back. The
    /// file stays until the next state replaces it: a start that fails does not forget it.
    ///
    /// # Errors
    /// [`Error::AgentRuns`], [`Error::Io`].
    pub fn open(dir: &Path) -> Result<(Self, State)> {
        fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let path = dir.join(LOCK);
        let lock = or_read_only(&path, File::create(&path)).map_err(Error::io(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::AgentRuns(dir.into())),
            Err(TryLockError::Error(error)) => return Err(Error::io(&path)(error)),
        }
        let state = read(&dir.join(FILE))?;
        Ok((Self { dir: dir.into(), _lock: lock }, state))
    }

    /// Replaces the state; it is safe on disk when this returns.
    ///
    /// # Errors
    /// [`Error::Io`]; the old state is still there.
    pub fn write(&self, state: &State) -> Result<()> {
        let path = self.dir.join(FILE);
        let new = path.with_extension("new");
        let text = serde_json::to_vec(state).map_err(|e| Error::format(&path, e.to_string()))?;
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(Error::io(&path))
    }
}

/// On a disk that takes no writes any more the file that is there is locked as well.
fn or_read_only(path: &Path, created: io::Result<File>) -> io::Result<File> {
    match created {
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => File::open(path),
        created => created,
    }
}

fn read(path: &Path) -> Result<State> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(State::default()),
        Err(e) => return Err(Error::io(path)(e)),
    };
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        copy_aside(path, &format!("not a state of this program ({error})"));
        State { lease: Some(Lease { deadline_ms: 0, length_ms: 0 }), ..State::default() }
    }))
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
    fn what_is_written_is_read() {
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
    fn on_a_disk_that_is_read_only_what_was_kept_is_locked_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK);
        let read_only = || Err(io::Error::from_raw_os_error(libc::EROFS));
        assert!(or_read_only(&path, read_only()).is_err(), "no agent was ever there");
        let (store, _) = Store::open(dir.path()).unwrap();
        let lock = or_read_only(&path, read_only()).unwrap();
        assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        drop(store);
        lock.try_lock().unwrap();
        assert!(matches!(Store::open(dir.path()), Err(Error::AgentRuns(_))));
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
