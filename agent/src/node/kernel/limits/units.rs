// SPDX-License-Identifier: Apache-2.0
//! Writes limits of systemd units through systemd, and all others to their files.

use crate::cgroup;
use crate::cgroup::fs::MAX;
use crate::managers::Units;
use crate::node::kernel::limits::writer::write_now;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

const HIGH: &str = "memory.high";
/// The longest wait until systemd writes the file. It does so after it has answered, which takes a
/// while on a busy host.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);

/// Returns a function that writes to files of cgroups below `mount`, and limits of units through
/// systemd. If systemd fails, it writes the file, because memory must be returned whatever happens
/// to systemd.
pub fn through(
    units: Units,
    mount: PathBuf,
) -> impl Fn(u64, &Path, &str) -> io::Result<()> + Send + Sync + 'static {
    let through =
        Through { units, mount, written_within: WRITTEN_WITHIN, newest: Newest::default() };
    move |cgroup_id, path, text| through.write(cgroup_id, path, text)
}

struct Through {
    units: Units,
    mount: PathBuf,
    written_within: Duration,
    newest: Newest,
}

/// The newest write of the limit of each cgroup, by the cgroup's id. systemd may write a file once
/// for several limits that were set. A limit that a newer one replaced then never appears in the
/// file, and must not be written to the file after the newer one.
#[derive(Default)]
struct Newest {
    of: Mutex<HashMap<u64, u64>>,
    begun: AtomicU64,
}

impl Newest {
    fn begin(&self, cgroup_id: u64) -> u64 {
        let write = self.begun.fetch_add(1, Ordering::Relaxed);
        self.of().insert(cgroup_id, write);
        write
    }

    fn is(&self, cgroup_id: u64, write: u64) -> bool {
        self.of().get(&cgroup_id) == Some(&write)
    }

    fn end(&self, cgroup_id: u64, write: u64) {
        let mut of = self.of();
        if of.get(&cgroup_id) == Some(&write) {
            of.remove(&cgroup_id);
        }
    }

    fn of(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Through {
    fn write(&self, cgroup_id: u64, path: &Path, text: &str) -> io::Result<()> {
        let Some((cgroup, bytes)) = limit_of(&self.mount, path, text) else {
            return write_now(cgroup_id, path, text);
        };
        check_id(path, cgroup_id)?;
        let write = self.newest.begin(cgroup_id);
        let is_newest = || self.newest.is(cgroup_id, write);
        let done = match self.by_systemd(&cgroup, bytes, path, text, is_newest) {
            Ok(false) if is_newest() => write_now(cgroup_id, path, text),
            by_systemd => by_systemd.map(drop),
        };
        self.newest.end(cgroup_id, write);
        done
    }

    /// Returns true if systemd has written the limit or a newer write replaced this one, and false
    /// if the caller has to write the file.
    fn by_systemd(
        &self,
        cgroup: &str,
        bytes: Option<u64>,
        path: &Path,
        text: &str,
        is_newest: impl Fn() -> bool,
    ) -> io::Result<bool> {
        match self.units.set_memory_high(cgroup, bytes) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                tracing::warn!(cgroup, "the limit is written to the file: {error}");
                return Ok(false);
            }
        }
        // While the file has another value, this must not return: the node would take the value for
        // another program's.
        let began = Instant::now();
        while is_newest() && cgroup::fs::read(path)?.trim() != text {
            if began.elapsed() > self.written_within {
                tracing::warn!(cgroup, "systemd has yet to write the limit");
                return Ok(false);
            }
            sleep(POLL);
        }
        Ok(true)
    }
}

/// The cgroup and the limit, if the file is a `memory.high` below `mount`; the limit is `None` for
/// `max`.
fn limit_of(mount: &Path, path: &Path, text: &str) -> Option<(String, Option<u64>)> {
    let dir = path.parent().filter(|_| path.file_name().is_some_and(|name| name == HIGH))?;
    let cgroup = format!("/{}", dir.strip_prefix(mount).ok()?.to_str()?);
    let bytes = if text == MAX { None } else { Some(text.parse().ok()?) };
    Some((cgroup, bytes))
}

/// Checks that the directory has this id. The error is the one that opening it by its id would
/// give.
fn check_id(path: &Path, cgroup_id: u64) -> io::Result<()> {
    let dir = path.parent().unwrap_or(path);
    match fs::metadata(dir)?.ino() == cgroup_id {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managers::played::{Set, played};
    use crate::managers::{Managers, Settings};
    use std::sync::Arc;

    fn until(is_set: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_set() {
            assert!(began.elapsed() < Duration::from_secs(10));
            sleep(POLL);
        }
    }

    #[test]
    fn a_limit_that_was_overtaken_before_systemd_wrote_it_is_not_written_after_that() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = dir.path().join("system.slice/db.service");
        fs::create_dir_all(&cgroup).unwrap();
        let (path, id) = (cgroup.join(HIGH), fs::metadata(&cgroup).unwrap().ino());
        fs::write(&path, "max\n").unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let played = runtime.block_on(played(dir.path(), &[]));
        let settings = Settings { proc: dir.path().into(), systemd: true, sockets: vec![] };
        let managers = Managers::with(settings, Some(Arc::clone(&played.systemd))).unwrap();
        let through = Through {
            units: managers.units().unwrap(),
            mount: dir.path().into(),
            written_within: Duration::from_millis(500),
            newest: Newest::default(),
        };
        let has_set = |set: &Set, bytes| set.lock().unwrap().iter().any(|one| one.2 == bytes);
        std::thread::scope(|scope| {
            let lower = scope.spawn(|| through.write(id, &path, "4096"));
            until(|| has_set(&played.set, 4096));
            let raise = scope.spawn(|| through.write(id, &path, "8192"));
            until(|| has_set(&played.set, 8192));
            // systemd writes the file once for both limits.
            fs::write(&path, "8192\n").unwrap();
            lower.join().unwrap().unwrap();
            raise.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), "8192\n");
        // A limit that nothing replaces is written to the file in the end.
        through.write(id, &path, "4096").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "4096");
        assert!(through.newest.of().is_empty());
    }

    #[test]
    fn only_limits_of_cgroups_below_the_mount_may_be_those_of_units() {
        let mount = Path::new("/sys/fs/cgroup");
        let of = |path: &str, text: &str| limit_of(mount, Path::new(path), text);
        let high = "/sys/fs/cgroup/system.slice/db.service/memory.high";
        let cgroup = "/system.slice/db.service".to_owned();
        assert_eq!(of(high, "4096"), Some((cgroup.clone(), Some(4096))));
        assert_eq!(of(high, "max"), Some((cgroup, None)));
        assert_eq!(of("/sys/fs/cgroup/a.service/memory.reclaim", "4096"), None);
        assert_eq!(of("/elsewhere/a.service/memory.high", "4096"), None);
    }
}
