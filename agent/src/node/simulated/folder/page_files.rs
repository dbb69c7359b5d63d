// SPDX-License-Identifier: Apache-2.0
//! Lists of pages beside the definitions of tenants: `NAME.list` asks for the pages of a tenant
//! that runs, `NAME.pages` has them, or those of a tenant that is to come, and is renamed to
//! `NAME.warm` when all of these were read. Files, because whoever moves a definition from folder to
//! folder can move these too, and needs no other way to speak to a node.

use super::super::limit::PAGE_BYTES;
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

/// A longer file asks for nothing: it holds one number.
const MAX_ASKED_BYTES: u64 = 64;

/// What tells a file from the one that is renamed over it, or is written in its place.
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

/// A list whose pages are read, or were.
struct Taken {
    file: FileId,
    /// Whether the node called it `NAME.warm`.
    renamed: bool,
}

/// A list that was refused: it is read again when it is another file, or there is room for it.
/// Parsing it every second for nothing would take long.
struct Refused {
    file: FileId,
    /// How many pages it has; the largest number for one that cannot be read.
    pages: u64,
}

/// The lists of a folder and what became of them.
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

    /// Problems that were found.
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

    /// The value; or the problem of a file is told.
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

    /// Lists the pages of a tenant that somebody asked for.
    pub(in super::super) fn answer(&mut self, name: &str, tenant: &Tenant) {
        let result = self.list(name, tenant);
        self.tell(Kind::Asked, name, result);
    }

    fn list(&self, name: &str, tenant: &Tenant) -> Told<()> {
        let asked = self.path(Kind::Asked, name);
        let most_bytes = number(read(&asked, MAX_ASKED_BYTES)?.trim_ascii())
            .ok_or("not one decimal number of bytes")?;
        let keys = tenant.workload.stream.cache.last_used(most_bytes / PAGE_BYTES);
        let text = page_list::text(&keys, &tenant.cgroup);
        // Under another name at first: whoever waits for it shall find it whole.
        let part = self.folder.join(format!(".{}", Kind::Pages.file(name)));
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, self.path(Kind::Pages, name)))
            .and_then(|()| fs::remove_file(&asked))
            .map_err(|e| e.to_string())
    }

    /// The tenant of a name runs from now on: its lists have served.
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

    /// Takes up new lists of tenants that are to come, and drops those that are there no more.
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
            // Another process read it: its pages went with that.
            if !self.taken.contains_key(name) && self.rename(name, Kind::Warm, Kind::Pages) {
                self.offered(name, warming);
            }
        }
    }

    /// There is a `NAME.pages` of a tenant that is to come.
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

    /// Reads a list for which there is so much room.
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
