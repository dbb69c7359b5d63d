// SPDX-License-Identifier: Apache-2.0
//! Memory cgroups of the tests, and what the kernel says of their policies.

use crate::error::{Context, Error, Result, read_text, write_text};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

const TOP: &str = "/sys/fs/cgroup/ktests";
const PATIENCE: Duration = Duration::from_secs(20);

/// A cgroup that goes away with this value, and its processes with it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

/// What `memory.cache_ext` says.
#[derive(Debug, Clone)]
pub struct Stat(BTreeMap<String, String>);

impl Stat {
    /// A figure; 0 when the kernel does not know it, which `text` tells apart.
    #[must_use]
    pub fn get(&self, key: &str) -> u64 {
        self.0.get(key).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// A value as it stands there.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("(missing)", String::as_str)
    }
}

impl Cgroup {
    /// A cgroup below that of all tests, with a limit in bytes if there is to be one.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(name: &str, limit_bytes: Option<u64>) -> Result<Self> {
        let top = PathBuf::from(TOP);
        if !top.is_dir() {
            fs::create_dir(&top).context(|| TOP.into())?;
            write_text(top.join("cgroup.subtree_control"), "+memory")?;
        }
        Self::make(top.join(name), limit_bytes)
    }

    fn make(path: PathBuf, limit_bytes: Option<u64>) -> Result<Self> {
        fs::create_dir(&path).context(|| path.display().to_string())?;
        let made = Self { path };
        if let Some(bytes) = limit_bytes {
            made.write("memory.max", &bytes.to_string())?;
        }
        Ok(made)
    }

    /// A cgroup below this one.
    ///
    /// # Errors
    /// What the system says.
    pub fn child(&self, name: &str, limit_bytes: Option<u64>) -> Result<Self> {
        self.write("cgroup.subtree_control", "+memory")?;
        Self::make(self.path.join(name), limit_bytes)
    }

    /// The id that policies name it by.
    ///
    /// # Errors
    /// What the system says.
    pub fn id(&self) -> Result<u64> {
        Ok(fs::metadata(&self.path).context(|| self.path.display().to_string())?.ino())
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Writes to one of its files.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        write_text(self.path.join(file), text)
    }

    /// One of its files.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, file: &str) -> Result<String> {
        read_text(self.path.join(file))
    }

    /// A figure of `memory.stat`, `memory.events` and the like.
    ///
    /// # Errors
    /// When the file has no such line.
    pub fn figure(&self, file: &str, key: &str) -> Result<u64> {
        let text = self.read(file)?;
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value
            .and_then(|value| value.trim().parse().ok())
            .ok_or_else(|| Error::Check(format!("{file} has no figure {key}")))
    }

    /// What it says of its policy.
    ///
    /// # Errors
    /// What the system says.
    pub fn stat(&self) -> Result<Stat> {
        let text = self.read("memory.cache_ext")?;
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        Ok(Stat(pairs.map(|(key, value)| (key.into(), value.into())).collect()))
    }

    /// Waits until its policy is in a state; the stat that says so.
    ///
    /// # Errors
    /// When it takes too long.
    pub fn wait_for_state(&self, wanted: &str) -> Result<Stat> {
        self.wait_for(wanted, |stat| stat.text("state") == wanted)
    }

    /// Waits until the stat is as wanted, and returns it.
    ///
    /// # Errors
    /// When it takes too long.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Stat) -> bool) -> Result<Stat> {
        let start = Instant::now();
        loop {
            let stat = self.stat()?;
            if wanted(&stat) {
                return Ok(stat);
            }
            if start.elapsed() > PATIENCE {
                return Err(Error::Check(format!(
                    "{}: not {what} within {PATIENCE:?}: {:?}",
                    self.path(),
                    stat.0
                )));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Ends its processes and removes it, with what is below it.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self) -> Result<()> {
        if !self.path.is_dir() {
            return Ok(());
        }
        self.write("cgroup.kill", "1")?;
        remove_tree(&self.path)
    }
}

/// Removes a cgroup and those below it; processes that were killed may take a while to go.
fn remove_tree(path: &Path) -> Result<()> {
    let entries = fs::read_dir(path).context(|| path.display().to_string())?;
    for below in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        remove_tree(&below)?;
    }
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(_) if start.elapsed() < PATIENCE => sleep(Duration::from_millis(10)),
            done => return done.context(|| format!("removing {}", path.display())),
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("{error}");
        }
    }
}
