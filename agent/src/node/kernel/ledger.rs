// SPDX-License-Identifier: Apache-2.0
//! What tenants had before this agent changed them, kept on disk.
//!
//! An entry is on disk before the first change of its tenant. So whenever the agent is killed, the
//! next one knows of every cgroup that may have been changed, and what to give back. What the
//! changes were is not kept: the kernel and the pins tell. Ids of cgroups begin anew with each
//! boot, and no limit outlives it, so that entries of another boot are void.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

const FILE: &str = "ledger.json";
const VERSION: u32 = 1;

/// What a tenant had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Initial {
    /// Its path below the mount.
    pub cgroup: String,
    /// `memory.high`, none for no limit.
    pub high_bytes: Option<u64>,
    /// Name of its policy.
    pub policy: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    boot_id: String,
    entries: BTreeMap<u64, Initial>,
}

/// The ledger of a node, by id of the cgroup.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    content: Content,
}

impl Ledger {
    /// The ledger in `dir`, which is made when it is missing.
    ///
    /// # Errors
    /// What the system says, or [`Error::Format`] when the file is damaged: then somebody has to
    /// look, as nobody knows any more what there is to give back.
    pub fn open(dir: &Path, boot_id: &str) -> Result<Self> {
        fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let path = dir.join(FILE);
        let empty =
            || Content { version: VERSION, boot_id: boot_id.into(), entries: BTreeMap::new() };
        let content = match fs::read_to_string(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => empty(),
            Err(e) => return Err(Error::io(&path)(e)),
            Ok(text) => serde_json::from_str(&text)
                .map_err(|e| Error::format(&path, format!("{e}; what tenants had is not known")))?,
        };
        if content.version != VERSION {
            let message =
                format!("version {} is not supported, expected {VERSION}", content.version);
            return Err(Error::format(&path, message));
        }
        let content = if content.boot_id == boot_id { content } else { empty() };
        Ok(Self { path, content })
    }

    /// What a tenant had, when it may have been changed.
    #[must_use]
    pub fn get(&self, cgroup_id: u64) -> Option<&Initial> {
        self.content.entries.get(&cgroup_id)
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<u64, Initial> {
        &self.content.entries
    }

    /// Notes what a tenant has, unless that is noted already; on disk when this returns.
    ///
    /// # Errors
    /// What the system says; then nothing may be changed.
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

    /// Forgets tenants; on disk when this returns.
    ///
    /// # Errors
    /// What the system says; then the next agent finds their entries again.
    pub fn forget(&mut self, mut gone: impl FnMut(u64, &Initial) -> bool) -> Result<()> {
        let before = self.content.entries.len();
        self.content.entries.retain(|&id, initial| !gone(id, initial));
        if self.content.entries.len() == before { Ok(()) } else { self.save() }
    }

    /// Writes beside the file and renames: it has the old content or the new one, also after a
    /// loss of power.
    fn save(&self) -> Result<()> {
        let part = self.path.with_extension("part");
        let text = serde_json::to_vec_pretty(&self.content)
            .map_err(|e| Error::format(&self.path, e.to_string()))?;
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(Error::io(&part))?;
        fs::rename(&part, &self.path).map_err(Error::io(&self.path))?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io(dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(cgroup: &str) -> Initial {
        Initial { cgroup: cgroup.into(), high_bytes: Some(4096), policy: "default".into() }
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
    fn another_boot_makes_it_void() {
        let dir = tempfile::tempdir().unwrap();
        Ledger::open(dir.path(), "b1").unwrap().note(5, || initial("/a")).unwrap();
        assert!(Ledger::open(dir.path(), "b2").unwrap().entries().is_empty());
    }

    #[test]
    fn a_damaged_ledger_is_refused_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE);
        for text in ["", "{", "{\"version\":1}", "{\"version\":9,\"boot_id\":\"\",\"entries\":{}}"]
        {
            fs::write(&file, text).unwrap();
            let error = Ledger::open(dir.path(), "b1").unwrap_err();
            assert!(matches!(&error, Error::Format { path, .. } if *path == file), "{error}");
        }
    }

    #[test]
    fn what_could_not_be_saved_is_not_noted() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(dir.path(), "b1").unwrap();
        fs::create_dir(dir.path().join("ledger.part")).unwrap();
        assert!(ledger.note(5, || initial("/a")).is_err());
        assert_eq!(ledger.get(5), None);
    }
}
