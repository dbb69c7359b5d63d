// SPDX-License-Identifier: Apache-2.0
//! Pins in the BPF file system, which keep policies alive after their loader ends.
//!
//! `ROOT/CGROUP_ID/link` is the link of a cgroup's policy. The maps of a policy are beside it, with
//! the id of its table of hooks at the end of their names: `tunables_57`, `state_57`. The kernel
//! reports which table a link attaches, so the link alone decides. A link without a table, maps of
//! other tables and a folder without a link are leftovers of a loader that was killed; they have no
//! effect. The agent removes them when it starts and when cgroups are removed, and so do the
//! commands that attach and detach.

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
/// Beginnings of the names of maps. Programs and the link are pinned beside them.
const MAPS: [&str; 3] = ["tunables_", "state_", "map_"];

/// The folder of all pins.
#[derive(Debug, Clone)]
pub struct PinRoot {
    dir: PathBuf,
    /// The longest wait for another process; `left` is what remains of it.
    patience: Duration,
    left: Cell<Duration>,
}

/// While this exists, no other process changes policies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The pins of one cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupPins {
    dir: PathBuf,
    /// Id of the cgroup.
    pub id: u64,
}

impl PinRoot {
    /// The folder `root`, whose parent must be a BPF file system.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { dir: root.into(), patience: LOCK_PATIENCE, left: Cell::new(LOCK_PATIENCE) }
    }

    /// For a caller that must not wait: waits for another process no longer than `patience`, and
    /// not again before [`Self::renew`].
    #[must_use]
    pub fn hurried(self, patience: Duration) -> Self {
        Self { patience, left: Cell::new(patience), ..self }
    }

    /// Allows another wait of the full length for another process.
    pub fn renew(&self) {
        self.left.set(self.patience);
    }

    /// Creates the folder and locks it against other processes. The lock ends with the process.
    ///
    /// # Errors
    /// Returns [`Error::NoBpffs`], [`Error::Locked`] after the longest wait (half a minute unless
    /// the root is [`Self::hurried`]), or the error of the operating system.
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

    /// Pins of the cgroup `id`, whether there are any or not.
    #[must_use]
    pub fn of(&self, id: u64) -> CgroupPins {
        CgroupPins { dir: self.dir.join(id.to_string()), id }
    }

    /// All cgroups with pins, sorted by id.
    ///
    /// # Errors
    /// Returns the error of the operating system. If there is no folder of pins, the result is
    /// empty.
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
    /// Path of the pinned link.
    #[must_use]
    pub fn link(&self) -> PathBuf {
        self.dir.join(LINK)
    }

    /// Path of the pinned tunables of the policy with the table `table_id`.
    #[must_use]
    pub fn tunables(&self, table_id: u32) -> PathBuf {
        self.dir.join(format!("tunables_{table_id}"))
    }

    /// Path of the pinned state of that policy.
    #[must_use]
    pub fn state(&self, table_id: u32) -> PathBuf {
        self.dir.join(format!("state_{table_id}"))
    }

    /// Path of another pinned object of the policy, by kind and name.
    #[must_use]
    pub fn named(&self, kind: &str, name: &str) -> PathBuf {
        // The BPF file system does not allow dots in names.
        self.dir.join(format!("{kind}_{}", name.replace('.', "_")))
    }

    /// Paths of all pinned maps, empty if there is no folder.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn maps(&self) -> Result<Vec<PathBuf>> {
        let is_map = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            MAPS.iter().any(|begin| name.starts_with(begin))
        };
        Ok(self.files()?.into_iter().filter(is_map).collect())
    }

    /// Creates the folder.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn create(&self) -> Result<()> {
        make_dir(&self.dir)
    }

    /// Removes the maps of all policies except the one with the table `table_id`.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn sweep(&self, table_id: u32) -> Result<()> {
        let kept = [self.link(), self.tunables(table_id), self.state(table_id)];
        self.remove_files(|path| !kept.contains(&path.to_path_buf()))
    }

    /// Removes everything, the link last. Until the link is removed, the folder differs from that
    /// of a policy that was never attached; after that, nothing is left.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn remove(&self) -> Result<()> {
        let link = self.link();
        self.remove_files(|path| path != link)?;
        ignore_absence(fs::remove_file(&link)).map_err(Error::io(&link))?;
        ignore_absence(fs::remove_dir(&self.dir)).map_err(Error::io(&self.dir))
    }

    fn remove_files(&self, wanted: impl Fn(&Path) -> bool) -> Result<()> {
        for path in self.files()?.into_iter().filter(|path| wanted(path)) {
            ignore_absence(fs::remove_file(&path)).map_err(Error::io(&path))?;
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            entries => {
                let entries = entries.map_err(Error::io(&self.dir))?;
                Ok(entries.flatten().map(|e| e.path()).collect())
            }
        }
    }
}

fn ignore_absence(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Creates a folder that only root can access, as anybody who can open a link can detach it.
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
    fn maps_are_told_from_links_and_programs() {
        let dir = tempfile::tempdir().unwrap();
        let pins = pinned(&PinRoot::new(dir.path()), 42, &[57]);
        for (kind, name) in [("map", "folios"), ("program", "look")] {
            fs::write(pins.named(kind, name), "").unwrap();
        }
        let mut maps = pins.maps().unwrap();
        maps.sort();
        assert_eq!(maps, [pins.named("map", "folios"), pins.state(57), pins.tunables(57)]);
        assert_eq!(PinRoot::new(dir.path()).of(7).maps().unwrap(), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn names_suit_the_bpf_file_system() {
        // The BPF file system does not allow dots in names.
        let pins = PinRoot::new("/sys/fs/bpf/cachepilot").of(42);
        for path in [pins.link(), pins.tunables(7), pins.state(7), pins.named("map", "a.bss")] {
            assert!(!path.to_str().unwrap().contains('.'));
            assert!(path.starts_with("/sys/fs/bpf/cachepilot/42"));
        }
    }

    #[test]
    fn only_one_process_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path(), Duration::ZERO).unwrap();
        assert!(matches!(lock(dir.path(), Duration::ZERO), Err(Error::Locked(_))));
        drop(held);
        lock(dir.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_hurried_caller_waits_only_once_until_it_may_again() {
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
