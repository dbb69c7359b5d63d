// SPDX-License-Identifier: Apache-2.0
//! Limits of systemd's units are written by systemd, all others to their files.

use crate::cgroup;
use crate::cgroup::fs::MAX;
use crate::managers::Units;
use crate::node::kernel::limits::writer::write_now;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const HIGH: &str = "memory.high";
/// systemd writes the file after it has answered; on a busy host that takes a while.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);

/// Writes to files of cgroups below `mount`, limits of units through systemd. Where that fails the
/// file is written, as memory must be given back whatever became of systemd.
pub fn through(
    units: Units,
    mount: PathBuf,
) -> impl Fn(u64, &Path, &str) -> io::Result<()> + Send + Sync + 'static {
    move |cgroup_id, path, text| {
        if let Some((cgroup, bytes)) = limit_of(&mount, path, text) {
            check_id(path, cgroup_id)?;
            match units.set_memory_high(&cgroup, bytes) {
                Ok(true) if is_written(path, text)? => return Ok(()),
                Ok(true) => tracing::warn!(cgroup, "systemd has yet to write the limit"),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(cgroup, "the limit is written to the file: {error}");
                }
            }
        }
        write_now(cgroup_id, path, text)
    }
}

/// The cgroup and the limit, when the file is that of a limit.
fn limit_of(mount: &Path, path: &Path, text: &str) -> Option<(String, Option<u64>)> {
    let dir = path.parent().filter(|_| path.file_name().is_some_and(|name| name == HIGH))?;
    let cgroup = format!("/{}", dir.strip_prefix(mount).ok()?.to_str()?);
    let bytes = if text == MAX { None } else { Some(text.parse().ok()?) };
    Some((cgroup, bytes))
}

/// As if the directory had been opened by its id.
fn check_id(path: &Path, cgroup_id: u64) -> io::Result<()> {
    let dir = path.parent().unwrap_or(path);
    match fs::metadata(dir)?.ino() == cgroup_id {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
    }
}

/// Whether the file says so in time. Until then nobody else has set it.
fn is_written(path: &Path, text: &str) -> io::Result<bool> {
    let began = Instant::now();
    while cgroup::fs::read(path)?.trim() != text {
        if began.elapsed() > WRITTEN_WITHIN {
            return Ok(false);
        }
        sleep(POLL);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

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
