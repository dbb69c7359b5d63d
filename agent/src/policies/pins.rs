// SPDX-License-Identifier: Apache-2.0
//! What keeps policies alive without their loader: pins in the BPF file system.
//!
//! `ROOT/CGROUP_ID/link` is the link of a cgroup's policy. The maps of a policy are beside it, with
//! the id of its table of hooks at the end of their names: `tunables_57`, `state_57`. The kernel
//! says which table a link attaches, so that the link alone decides: one without a table, maps of
//! other tables and a folder without a link are leftovers of a loader that was killed; they have no
//! effect. The agent sweeps them up when it starts and when cgroups go, and so do the commands that
//! attach and detach.

use crate::cgroup::mount::file_system_magic;
use crate::error::{Error, Result};
use std::cell::Cell;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const BPF_FS_MAGIC: u32 = 0xcafe_4a11;
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const LOCK_RETRY: Duration = Duration::from_millis(20);
const LINK: &str = "link";

/// The folder of all pins.
#[derive(Debug, Clone)]
pub struct PinRoot {
    dir: PathBuf,
    /// How long another process is waited for, and what is left of that.
    patience: Duration,
    left: Cell<Duration>,
}

/// As long as this lives no other process changes policies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The pins of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupPins {
    dir: PathBuf,
    /// The cgroup.
    pub id: u64,
}

impl PinRoot {
    /// The folder `root`, whose parent must be a BPF file system.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { dir: root.into(), patience: LOCK_PATIENCE, left: Cell::new(LOCK_PATIENCE) }
    }

    /// The same for who must not wait: another process is waited for no longer than `patience`, and
    /// not again before [`Self::renew`].
    #[must_use]
    pub fn hurried(self, patience: Duration) -> Self {
        Self { patience, left: Cell::new(patience), ..self }
    }

    /// From now on another process is waited for again.
    pub fn renew(&self) {
        self.left.set(self.patience);
    }

    /// Makes the folder and locks it against other processes. The lock goes with the process.
    ///
    /// # Errors
    /// [`Error::NoBpffs`], [`Error::Locked`] when that was waited for long enough, half a minute unless
    /// the root is [`Self::hurried`], or what the system says.
    pub fn lock(&self) -> Result<Lock> {
        let parent = self.dir.parent().unwrap_or(Path::new("/"));
        if file_system_magic(parent)? != BPF_FS_MAGIC {
            return Err(Error::NoBpffs(parent.into()));
        }
        make_dir(&self.dir)?;
        self.wait()
    }

    fn wait(&self) -> Result<Lock> {
        let locked = lock(&self.dir, self.left.get());
        if matches!(locked, Err(Error::Locked(_))) {
            self.left.set(Duration::ZERO);
        }
        locked
    }

    /// Pins of the cgroup called `id`, whether there are any or not.
    #[must_use]
    pub fn of(&self, id: u64) -> CgroupPins {
        CgroupPins { dir: self.dir.join(id.to_string()), id }
    }

    /// Every cgroup with pins, by id.
    ///
    /// # Errors
    /// What the system says, unless there are no pins at all.
    pub fn all(&self) -> Result<Vec<CgroupPins>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io(&self.dir))?,
        };
        let names = entries.flatten().map(|e| e.file_name());
        let mut ids: Vec<u64> = names.filter_map(|n| n.to_str()?.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids.into_iter().map(|id| self.of(id)).collect())
    }
}

impl CgroupPins {
    /// Where the link is pinned.
    #[must_use]
    pub fn link(&self) -> PathBuf {
        self.dir.join(LINK)
    }

    /// Where the tunables of the policy with the table `table_id` are pinned.
    #[must_use]
    pub fn tunables(&self, table_id: u32) -> PathBuf {
        self.dir.join(format!("tunables_{table_id}"))
    }

    /// Where the state of that policy is pinned.
    #[must_use]
    pub fn state(&self, table_id: u32) -> PathBuf {
        self.dir.join(format!("state_{table_id}"))
    }

    /// Where something else of the policy is pinned, by kind and name.
    #[must_use]
    pub fn named(&self, kind: &str, name: &str) -> PathBuf {
        // The BPF file system reserves dots.
        self.dir.join(format!("{kind}_{}", name.replace('.', "_")))
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(&self) -> Result<()> {
        make_dir(&self.dir)
    }

    /// Removes the maps of all policies but the one with the table `table_id`.
    ///
    /// # Errors
    /// What the system says.
    pub fn sweep(&self, table_id: u32) -> Result<()> {
        let kept = [self.link(), self.tunables(table_id), self.state(table_id)];
        self.remove_files(|path| !kept.contains(&path.to_path_buf()))
    }

    /// Removes everything, the link last: until then the folder can be told from one of a policy
    /// that was never attached, and after it there is nothing left to find.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self) -> Result<()> {
        let link = self.link();
        self.remove_files(|path| path != link)?;
        ignore_absence(fs::remove_file(&link)).map_err(Error::io(&link))?;
        ignore_absence(fs::remove_dir(&self.dir)).map_err(Error::io(&self.dir))
    }

    fn remove_files(&self, wanted: impl Fn(&Path) -> bool) -> Result<()> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::io(&self.dir))?,
        };
        for path in entries.flatten().map(|e| e.path()).filter(|p| wanted(p)) {
            ignore_absence(fs::remove_file(&path)).map_err(Error::io(&path))?;
        }
        Ok(())
    }
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Only root may reach the links: whoever opens one can detach it.
fn make_dir(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(Error::io(path)),
    }
}

fn lock(dir: &Path, patience: Duration) -> Result<Lock> {
    let file = File::open(dir).map_err(Error::io(dir))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::Error(e)) => return Err(Error::io(dir)(e)),
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => sleep(LOCK_RETRY),
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(dir.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pins: &CgroupPins) -> Vec<String> {
        let entries = fs::read_dir(&pins.dir).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn pinned(root: &PinRoot, id: u64, tables: &[u32]) -> CgroupPins {
        let pins = root.of(id);
        pins.create().unwrap();
        for &table in tables {
            fs::write(pins.tunables(table), "").unwrap();
            fs::write(pins.state(table), "").unwrap();
        }
        fs::write(pins.link(), "").unwrap();
        pins
    }

    #[test]
    fn a_sweep_leaves_the_link_and_the_maps_of_its_table() {
        let dir = tempfile::tempdir().unwrap();
        let pins = pinned(&PinRoot::new(dir.path()), 42, &[5, 57, 570]);
        pins.sweep(57).unwrap();
        assert_eq!(names(&pins), ["link", "state_57", "tunables_57"]);
    }

    #[test]
    fn pins_are_found_by_cgroup_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = PinRoot::new(dir.path().join("cachepilot"));
        assert_eq!(root.all().unwrap(), []);
        make_dir(&root.dir).unwrap();
        let (small, large) = (pinned(&root, 7, &[1]), pinned(&root, 1 << 40, &[2]));
        fs::create_dir(root.dir.join("other")).unwrap();
        assert_eq!(root.all().unwrap(), [small.clone(), large.clone()]);
        small.remove().unwrap();
        small.remove().unwrap();
        assert_eq!(root.all().unwrap(), [large]);
    }

    #[test]
    fn names_suit_the_bpf_file_system() {
        // It reserves dots.
        let pins = PinRoot::new("/sys/fs/bpf/cachepilot").of(42);
        for path in [pins.link(), pins.tunables(7), pins.state(7), pins.named("map", "a.bss")] {
            assert!(!path.to_str().unwrap().contains('.'));
            assert!(path.starts_with("/sys/fs/bpf/cachepilot/42"));
        }
    }

    #[test]
    fn one_process_at_a_time_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path(), Duration::ZERO).unwrap();
        assert!(matches!(lock(dir.path(), Duration::ZERO), Err(Error::Locked(_))));
        drop(held);
        lock(dir.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn who_must_not_wait_waits_once_until_that_is_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let patience = Duration::from_millis(100);
        let root = PinRoot::new(dir.path()).hurried(patience);
        let held = lock(dir.path(), Duration::ZERO).unwrap();
        let waited = || {
            let began = Instant::now();
            assert!(matches!(root.wait(), Err(Error::Locked(_))));
            began.elapsed()
        };
        assert!(waited() >= patience);
        assert!((0..50).map(|_| waited()).sum::<Duration>() < patience);
        root.renew();
        assert!(waited() >= patience);
        drop(held);
        root.wait().unwrap();
    }

    #[test]
    fn a_folder_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = PinRoot::new(dir.path().join("cachepilot")).lock().unwrap_err();
        assert!(matches!(error, Error::NoBpffs(_)), "{error}");
    }
}
