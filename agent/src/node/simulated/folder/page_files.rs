// SPDX-License-Identifier: Apache-2.0
//! Lists of pages beside the definitions of tenants. `NAME.list` requests the pages of a running
//! tenant. `NAME.pages` contains them, or those of a future tenant, and is renamed to `NAME.warm`
//! when all of these were read. Files are used because a program that moves a definition from
//! folder to folder can move these too, and needs no other connection to a node.

use super::super::config::PAGE_BYTES;
use super::super::tenant::Tenant;
use super::super::validate::MAX_TENANTS;
use super::super::warming::Warming;
use super::files::{Kind, Listing, Problems, Told, definition_of, read};
use super::page_list::{self, MAX_LIST_BYTES};
use crate::pages::format::number;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A longer file is not a request, which contains one number.
const MAX_ASKED_BYTES: u64 = 64;

/// Distinguishes a file from one that is renamed over it, or written in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    inode: u64,
    bytes: u64,
    written_s: i64,
    written_ns: i64,
}

impl FileId {
    fn of(path: &Path) -> Told<Self> {
        let found = fs::metadata(path).map_err(|e| e.to_string())?;
        Ok(Self {
            inode: found.ino(),
            bytes: found.size(),
            written_s: found.mtime(),
            written_ns: found.mtime_nsec(),
        })
    }
}

/// A list whose pages are being read, or were read.
struct Taken {
    file: FileId,
    /// Whether the node renamed it to `NAME.warm`.
    renamed: bool,
}

/// A refused list. It is read again only if the file changed or there is room for it, as parsing it
/// every second would take long.
struct Refused {
    file: FileId,
    /// Its number of pages; the largest number if it cannot be read.
    pages: u64,
}

/// The lists of a folder and their states.
pub(in super::super) struct PageFiles {
    folder: PathBuf,
    taken: BTreeMap<String, Taken>,
    refused: BTreeMap<String, Refused>,
    problems: Problems,
}

impl PageFiles {
    pub(in super::super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            taken: BTreeMap::new(),
            refused: BTreeMap::new(),
            problems: Problems::new(folder, "no pages are listed or read by it"),
        }
    }

    /// Number of problems found so far.
    pub(in super::super) fn failures(&self) -> u64 {
        self.problems.count
    }

    fn path(&self, kind: Kind, name: &str) -> PathBuf {
        self.folder.join(kind.file(name))
    }

    fn rename(&mut self, name: &str, from: Kind, to: Kind) -> bool {
        let done = fs::rename(self.path(from, name), self.path(to, name));
        self.tell(from, name, done.map_err(|e| e.to_string())).is_some()
    }

    /// Returns the value, or reports the problem of a file.
    fn tell<T>(&mut self, kind: Kind, name: &str, result: Told<T>) -> Option<T> {
        let file = kind.file(name);
        match result {
            Ok(value) => {
                self.problems.solved(&file);
                Some(value)
            }
            Err(message) => {
                self.problems.found(&file, &message);
                None
            }
        }
    }

    /// Lists the pages of a tenant in response to a request.
    pub(in super::super) fn answer(&mut self, name: &str, tenant: &Tenant) {
        let result = self.list(name, tenant);
        self.tell(Kind::Asked, name, result);
    }

    fn list(&self, name: &str, tenant: &Tenant) -> Told<()> {
        let asked = self.path(Kind::Asked, name);
        let most_bytes = number(read(&asked, MAX_ASKED_BYTES)?.trim_ascii())
            .ok_or("not one decimal number of bytes")?;
        let keys = tenant.last_used(most_bytes / PAGE_BYTES);
        let text = page_list::text(&keys, &tenant.cgroup);
        // The file is written under another name first, so that a reader never finds half of it.
        let part = self.folder.join(format!(".{}", Kind::Pages.file(name)));
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, self.path(Kind::Pages, name)))
            .and_then(|()| fs::remove_file(&asked))
            .map_err(|e| e.to_string())
    }

    /// Removes the lists of a name whose tenant runs from now on.
    pub(in super::super) fn tenant_began(
        &mut self,
        name: &str,
        listing: &Listing,
        warming: &mut Warming,
    ) {
        warming.forget(name);
        self.taken.remove(name);
        for (kind, names) in [(Kind::Pages, &listing.pages), (Kind::Warm, &listing.warm)] {
            if names.contains(name) {
                let result = match fs::remove_file(self.path(kind, name)) {
                    Err(e) if e.kind() != ErrorKind::NotFound => Err(e.to_string()),
                    Ok(()) | Err(_) => Ok(()),
                };
                self.tell(kind, name, result);
            }
        }
    }

    /// Begins to read new lists of future tenants, and drops those whose files no longer exist.
    pub(in super::super) fn look(&mut self, listing: &Listing, warming: &mut Warming) {
        self.problems.keep(|file| listing.has(file));
        self.refused.retain(|name, _| listing.pages.contains(name));
        self.taken.retain(|name, taken| {
            let is_there =
                listing.pages.contains(name) || (taken.renamed && listing.warm.contains(name));
            if !is_there {
                warming.forget(name);
            }
            is_there
        });
        let is_to_come = |name: &&String| !listing.definitions.contains(&definition_of(name));
        for name in listing.pages.iter().filter(is_to_come) {
            self.offered(name, warming);
        }
        for name in listing.warm.difference(&listing.pages).filter(is_to_come) {
            // Another process read it, and its pages were lost with that process.
            if !self.taken.contains_key(name) && self.rename(name, Kind::Warm, Kind::Pages) {
                self.offered(name, warming);
            }
        }
    }

    /// Handles a `NAME.pages` of a future tenant.
    fn offered(&mut self, name: &str, warming: &mut Warming) {
        let file = match FileId::of(&self.path(Kind::Pages, name)) {
            Ok(file) => file,
            Err(message) => return self.problems.found(&Kind::Pages.file(name), &message),
        };
        if self.taken.get(name).is_some_and(|taken| taken.file == file) {
            if warming.is_complete(name) {
                let renamed = self.rename(name, Kind::Pages, Kind::Warm);
                self.taken.insert(name.to_owned(), Taken { file, renamed });
            }
            return;
        }
        let room = warming.room(name);
        let refused = self.refused.get(name).filter(|refused| refused.file == file);
        if refused.is_some_and(|refused| room.is_none_or(|room| refused.pages > room)) {
            return;
        }
        let result = self.keys(name, file, room);
        if let Some(keys) = self.tell(Kind::Pages, name, result) {
            self.refused.remove(name);
            self.taken.insert(name.to_owned(), Taken { file, renamed: false });
            warming.begin(name, keys);
        }
    }

    /// Reads a list of at most `room` pages.
    fn keys(&mut self, name: &str, file: FileId, room: Option<u64>) -> Told<Vec<u64>> {
        let room = room.ok_or_else(|| format!("more than {MAX_TENANTS} lists"))?;
        let text = read(&self.path(Kind::Pages, name), MAX_LIST_BYTES)?;
        let (pages, message) = match page_list::parse(&text, room) {
            Ok(list) if list.pages <= room => return Ok(list.keys),
            Ok(list) => {
                (list.pages, "more pages than the node's memory has with other lists".into())
            }
            Err(message) => (u64::MAX, message),
        };
        self.refused.insert(name.to_owned(), Refused { file, pages });
        Err(message)
    }
}
