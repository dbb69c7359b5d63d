// SPDX-License-Identifier: Apache-2.0
//! The files of a folder of tenants: which exist, and what is wrong with them.

use super::super::validate::MAX_TENANTS;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The error is a message for the log.
pub(in super::super) type Told<T> = std::result::Result<T, String>;

const DEFINITION: &str = ".toml";

/// The names in a folder by their endings, as of one moment, for all modules that use the folder.
#[derive(Default)]
pub(in super::super) struct Listing {
    /// Definitions of tenants, with the ending.
    pub(in super::super) definitions: BTreeSet<String>,
    /// The names of the other files without their endings; each is the name of a definition.
    pub(in super::super) asked: BTreeSet<String>,
    pub(in super::super) pages: BTreeSet<String>,
    pub(in super::super) warm: BTreeSet<String>,
}

impl Listing {
    /// Lists the files of a folder.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read, or has too many files.
    pub(in super::super) fn of(folder: &Path) -> Told<Self> {
        let mut listing = Self::default();
        for entry in fs::read_dir(folder).map_err(|e| e.to_string())? {
            let name = entry.map_err(|e| e.to_string())?.file_name();
            // By the convention of editors, a file whose name begins with a dot is still being
            // written.
            if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
                listing.add(name);
            }
            let Self { definitions, asked, pages, warm } = &listing;
            if [definitions, asked, pages, warm].iter().any(|names| names.len() > MAX_TENANTS) {
                return Err(format!("more than {MAX_TENANTS} files"));
            }
        }
        Ok(listing)
    }

    /// Whether there is a file of this name.
    pub(super) fn has(&self, file: &str) -> bool {
        let is_in = |kind: Kind, names: &BTreeSet<String>| {
            file.strip_suffix(kind.ending()).is_some_and(|name| names.contains(name))
        };
        self.definitions.contains(file)
            || is_in(Kind::Asked, &self.asked)
            || is_in(Kind::Pages, &self.pages)
            || is_in(Kind::Warm, &self.warm)
    }

    fn add(&mut self, name: &str) {
        if name.ends_with(DEFINITION) {
            self.definitions.insert(name.to_owned());
        }
        for (kind, names) in [
            (Kind::Asked, &mut self.asked),
            (Kind::Pages, &mut self.pages),
            (Kind::Warm, &mut self.warm),
        ] {
            names.extend(name.strip_suffix(kind.ending()).map(str::to_owned));
        }
    }
}

/// The file that defines the tenant of a name.
pub(in super::super) fn definition_of(name: &str) -> String {
    format!("{name}{DEFINITION}")
}

/// The name with which the files beside a definition begin.
pub(in super::super) fn name_of(definition: &str) -> &str {
    definition.strip_suffix(DEFINITION).unwrap_or(definition)
}

/// The kinds of files beside a definition.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Asked,
    Pages,
    Warm,
}

impl Kind {
    fn ending(self) -> &'static str {
        match self {
            Self::Asked => ".list",
            Self::Pages => ".pages",
            Self::Warm => ".warm",
        }
    }

    pub(super) fn file(self, name: &str) -> String {
        format!("{name}{}", self.ending())
    }
}

/// The content of a file of at most `most_bytes`.
///
/// # Errors
/// Returns an error also for anything but a regular file, since the end of a pipe may never come.
pub(super) fn read(path: &Path, most_bytes: u64) -> Told<Vec<u8>> {
    let found = fs::metadata(path).map_err(|e| e.to_string())?;
    if !found.is_file() {
        return Err("no plain file".into());
    }
    let too_long = || format!("longer than {most_bytes} bytes");
    if found.len() > most_bytes {
        return Err(too_long());
    }
    let file = fs::File::open(path).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > most_bytes {
        return Err(too_long());
    }
    Ok(bytes)
}

/// Problems of files. A file is tried again at every read, but its problem is logged once.
pub(super) struct Problems {
    folder: PathBuf,
    /// What happens to the file in the meantime, for the log.
    meanwhile: &'static str,
    /// The last problem of each file that has one; the folder's own has an empty name.
    last: BTreeMap<String, String>,
    /// Number of problems found so far.
    pub(super) count: u64,
}

impl Problems {
    pub(super) fn new(folder: &Path, meanwhile: &'static str) -> Self {
        Self { folder: folder.to_path_buf(), meanwhile, last: BTreeMap::new(), count: 0 }
    }

    pub(super) fn found(&mut self, file: &str, message: &str) {
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.last.get(file) == Some(&message) {
            return;
        }
        let path = self.folder.join(file);
        tracing::warn!(path = %path.display(), "{}: {message}", self.meanwhile);
        self.count += 1;
        self.last.insert(file.to_owned(), message);
    }

    pub(super) fn solved(&mut self, file: &str) {
        self.last.remove(file);
    }

    /// Forgets problems of files that no longer exist.
    pub(super) fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.last.retain(|file, _| is_there(file));
    }
}
