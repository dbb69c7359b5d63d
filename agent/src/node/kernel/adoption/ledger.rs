// SPDX-License-Identifier: Apache-2.0
//! The ledger: the policy and the limit that each tenant had before this agent changed it, on disk.
//!
//! An entry is on disk before the first change of its tenant. Whenever the agent is killed, the
//! next one therefore knows every cgroup that may have been changed, and what to restore. The
//! changes themselves are not recorded: they can be read from the kernel and from the pins. Ids of
//! cgroups start again with each boot, and no limit survives a reboot, so entries of another boot
//! are void.

use crate::cgroup::ROOT_ID;
use crate::damaged::{self, Found, copy_aside};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const FILE: &str = "ledger.json";
const VERSION: u32 = 1;

/// The first policy and the first memory limit of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Initial {
    /// Its path below the mount.
    pub cgroup: String,
    /// `memory.high`; `None` means no limit.
    pub high_bytes: Option<u64>,
    /// Name of the tenant's own policy, `default` if it had none.
    pub policy: String,
    /// Microseconds since 1970 since when another program sets the limit, which is then not
    /// restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yielded_us: Option<u64>,
    /// Id of the cgroup at the mount point of the agent that changed the tenant: see
    /// [`CgroupFs::root_id`](crate::cgroup::fs::CgroupFs::root_id). Not found with another one, the
    /// tenant need not be gone.
    #[serde(default = "whole", skip_serializing_if = "is_whole")]
    pub root: u64,
}

const fn whole() -> u64 {
    ROOT_ID
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
const fn is_whole(root: &u64) -> bool {
    *root == ROOT_ID
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    boot_id: String,
    entries: BTreeMap<u64, Initial>,
}

/// The ledger of a node. Entries are keyed by the cgroup's id.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    content: Content,
    is_lost: bool,
}

impl Ledger {
    /// Opens the ledger in `dir`, which is created if it is missing. A ledger that cannot be read or
    /// parsed is copied aside, and its file stays until the first entry is noted; see
    /// [`Ledger::is_lost`].
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the directory cannot be opened, or this process may not read the
    /// ledger.
    pub fn open(dir: &Path, boot_id: &str) -> Result<Self> {
        fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let path = dir.join(FILE);
        let empty =
            || Content { version: VERSION, boot_id: boot_id.into(), entries: <_>::default() };
        let (content, is_lost) = match damaged::read(&path, parse)? {
            Found::Content(content) if content.boot_id == boot_id => (content, false),
            Found::Content(_) | Found::Nothing => (empty(), false),
            Found::Damaged(reason) => {
                copy_aside(&path, &reason);
                (empty(), true)
            }
        };
        Ok(Self { path, content, is_lost })
    }

    /// Whether the ledger in `dir` would be lost if it was opened now. Changes and logs nothing.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if this process may not read the ledger.
    pub fn is_lost_in(dir: &Path) -> Result<bool> {
        Ok(matches!(damaged::read(&dir.join(FILE), parse)?, Found::Damaged(_)))
    }

    /// Whether there was a ledger that could not be read. It is then unknown what tenants had
    /// first.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The entry of a tenant. `None` means that this agent, and any before it, changed nothing.
    #[must_use]
    pub fn get(&self, cgroup_id: u64) -> Option<&Initial> {
        self.content.entries.get(&cgroup_id)
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<u64, Initial> {
        &self.content.entries
    }

    /// Notes what a tenant has, unless it has an entry already. The entry is on disk when this
    /// returns.
    ///
    /// # Errors
    /// Returns the error of the operating system. The tenant must not be changed then.
    pub fn note(&mut self, cgroup_id: u64, initial: impl FnOnce() -> Initial) -> Result<()> {
        if self.content.entries.contains_key(&cgroup_id) {
            return Ok(());
        }
        self.content.entries.insert(cgroup_id, initial());
        let saved = self.save();
        if saved.is_err() {
            self.content.entries.remove(&cgroup_id);
        }
        saved
    }

    /// Notes since when another program sets the limit of a tenant, `None` if none does. The note
    /// is on disk when this returns. Does nothing for a tenant without an entry, which was never
    /// changed.
    ///
    /// # Errors
    /// Returns the error of the operating system. The next agent then treats the limit as its own.
    pub fn note_yield(&mut self, cgroup_id: u64, yielded_us: Option<u64>) -> Result<()> {
        match self.content.entries.get_mut(&cgroup_id) {
            Some(initial) if initial.yielded_us != yielded_us => initial.yielded_us = yielded_us,
            _ => return Ok(()),
        }
        self.save()
    }

    /// Replaces a lost ledger by these entries, which are on disk when this returns.
    ///
    /// # Errors
    /// Returns the error of the operating system. The ledger is still lost then.
    pub fn begin_anew(&mut self, entries: BTreeMap<u64, Initial>) -> Result<()> {
        self.content.entries = entries;
        self.save()?;
        self.is_lost = false;
        Ok(())
    }

    /// Removes the entries for which `gone` is true. The change is on disk when this returns.
    ///
    /// # Errors
    /// Returns the error of the operating system. The next agent finds the entries again then.
    pub fn forget(&mut self, mut gone: impl FnMut(u64, &Initial) -> bool) -> Result<()> {
        let before = self.content.entries.len();
        self.content.entries.retain(|&id, initial| !gone(id, initial));
        if self.content.entries.len() == before { Ok(()) } else { self.save() }
    }

    /// Writes a second file and renames it, so that the ledger has either the old content or the
    /// new one, even after a loss of power.
    fn save(&self) -> Result<()> {
        let part = self.path.with_extension("part");
        let text = serde_json::to_vec_pretty(&self.content)
            .map_err(|e| Error::format(&self.path, e.to_string()))?;
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(Error::io(&part))?;
        damaged::replace(&part, &self.path).map_err(Error::io(&self.path))?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io(dir))
    }
}

fn parse(text: &[u8]) -> std::result::Result<Content, String> {
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    match content.version {
        VERSION => Ok(content),
        other => Err(format!("version {other} is not supported, expected {VERSION}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(cgroup: &str) -> Initial {
        let (high_bytes, policy) = (Some(4096), "default".into());
        Initial { cgroup: cgroup.into(), high_bytes, policy, yielded_us: None, root: ROOT_ID }
    }

    #[test]
    fn the_first_note_of_a_tenant_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(&dir.path().join("state"), "b1").unwrap();
        ledger.note(5, || initial("/a")).unwrap();
        ledger.note(5, || initial("/other")).unwrap();
        ledger.note(6, || Initial { high_bytes: None, ..initial("/b") }).unwrap();
        let mut again = Ledger::open(&dir.path().join("state"), "b1").unwrap();
        assert_eq!(again.get(5), Some(&initial("/a")));
        assert_eq!(again.get(6).unwrap().high_bytes, None);
        again.forget(|id, _| id == 5).unwrap();
        let last = Ledger::open(&dir.path().join("state"), "b1").unwrap();
        assert_eq!(last.entries().keys().collect::<Vec<_>>(), [&6]);
    }

    #[test]
    fn a_limit_that_was_yielded_is_known_to_the_next_agent() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path(), "b1").unwrap();
        ledger.note(5, || initial("/a")).unwrap();
        ledger.note_yield(5, Some(77)).unwrap();
        ledger.note_yield(6, Some(77)).unwrap();
        let mut ledger = Ledger::open(dir.path(), "b1").unwrap();
        assert_eq!((ledger.get(5).unwrap().yielded_us, ledger.get(6)), (Some(77), None));
        ledger.note_yield(5, None).unwrap();
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(!text.contains("yielded"), "agents without this key read it: {text}");
    }

    #[test]
    fn another_boot_makes_it_void() {
        let dir = tempfile::tempdir().unwrap();
        Ledger::open(dir.path(), "b1").unwrap().note(5, || initial("/a")).unwrap();
        assert!(Ledger::open(dir.path(), "b2").unwrap().entries().is_empty());
    }

    #[test]
    fn a_damaged_ledger_is_lost_until_another_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let (file, aside) = (dir.path().join(FILE), dir.path().join("ledger.json.damaged"));
        let texts = ["", "{", "{\"version\":1}", "{\"version\":9,\"boot_id\":\"\",\"entries\":{}}"];
        for text in texts.map(str::as_bytes).into_iter().chain([&[0xff_u8][..]]) {
            fs::write(&file, text).unwrap();
            for _ in 0..2 {
                assert!(Ledger::is_lost_in(dir.path()).unwrap());
                let ledger = Ledger::open(dir.path(), "b1").unwrap();
                assert!(ledger.is_lost() && ledger.entries().is_empty());
                assert_eq!(fs::read(&aside).unwrap(), text);
            }
            let mut ledger = Ledger::open(dir.path(), "b1").unwrap();
            ledger.begin_anew(BTreeMap::from([(5, initial("/a"))])).unwrap();
            let again = Ledger::open(dir.path(), "b1").unwrap();
            assert!(!Ledger::is_lost_in(dir.path()).unwrap());
            assert!(!again.is_lost() && again.get(5) == Some(&initial("/a")));
        }
    }

    #[test]
    fn an_entry_that_cannot_be_saved_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path(), "b1").unwrap();
        fs::create_dir(dir.path().join("ledger.part")).unwrap();
        assert!(ledger.note(5, || initial("/a")).is_err());
        assert_eq!(ledger.get(5), None);
    }
}
