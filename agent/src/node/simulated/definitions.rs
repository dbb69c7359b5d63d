// SPDX-License-Identifier: Apache-2.0
//! A folder of tenants: one file is one tenant, as kubelet's static pods are. A file that appears
//! is a tenant that starts, one that goes away is a tenant that stops.

use super::config::TenantConfig;
use super::validate::{self, MAX_TENANTS};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A longer file is no definition of a tenant.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A definition that is not in force yet.
pub(super) struct Wanted {
    pub(super) file: String,
    pub(super) config: TenantConfig,
    text: String,
}

/// What a look at the folder found.
#[derive(Default)]
pub(super) struct Look {
    /// Files that are there no more, of tenants that ran.
    pub(super) gone: Vec<String>,
    /// New files and those that say something else.
    pub(super) wanted: Vec<Wanted>,
}

/// The folder, what is in force of it, and what is wrong with it.
pub(super) struct Definitions {
    folder: PathBuf,
    budget_bytes: u64,
    /// Text of each file whose tenant runs.
    in_force: BTreeMap<String, String>,
    /// The last problem of each file that has one; that of the folder has no name.
    problems: BTreeMap<String, String>,
    /// Problems that were found.
    pub(super) failures: u64,
}

impl Definitions {
    /// # Errors
    /// [`Error::Io`] when the folder cannot be read.
    pub(super) fn new(folder: &Path, budget_bytes: u64) -> Result<Self> {
        fs::read_dir(folder).map_err(Error::io(folder))?;
        Ok(Self {
            folder: folder.to_path_buf(),
            budget_bytes,
            in_force: BTreeMap::new(),
            problems: BTreeMap::new(),
            failures: 0,
        })
    }

    /// Reads the folder. What cannot be read or is no definition is told, and ends nobody.
    pub(super) fn look(&mut self) -> Look {
        let names = match self.names() {
            Ok(names) => names,
            Err(message) => {
                self.refused("", message);
                return Look::default();
            }
        };
        self.problems.retain(|name, _| names.contains(name));
        let gone: Vec<String> =
            self.in_force.keys().filter(|name| !names.contains(*name)).cloned().collect();
        self.in_force.retain(|name, _| names.contains(name));
        let wanted = names.into_iter().filter_map(|name| self.wanted(name)).collect();
        Look { gone, wanted }
    }

    fn names(&self) -> std::result::Result<BTreeSet<String>, String> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.folder).map_err(|e| e.to_string())? {
            let name = entry.map_err(|e| e.to_string())?.file_name();
            // One that begins with a dot is still being written, by the habit of editors.
            let plain = name.to_str().filter(|n| n.ends_with(".toml") && !n.starts_with('.'));
            names.extend(plain.map(str::to_owned));
            if names.len() > MAX_TENANTS {
                return Err(format!("more than {MAX_TENANTS} files"));
            }
        }
        Ok(names)
    }

    fn wanted(&mut self, file: String) -> Option<Wanted> {
        let text = match read(&self.folder.join(&file)) {
            Ok(text) => text,
            Err(message) => {
                self.refused(&file, message);
                return None;
            }
        };
        if self.in_force.get(&file) == Some(&text) {
            self.problems.remove(&file);
            return None;
        }
        match self.parsed(&text) {
            Ok(config) => Some(Wanted { file, config, text }),
            Err(message) => {
                self.refused(&file, message);
                None
            }
        }
    }

    fn parsed(&self, text: &str) -> std::result::Result<TenantConfig, String> {
        let mut config: TenantConfig = toml::from_str(text).map_err(|e| e.to_string())?;
        if config.start_s != 0.0 || config.stop_s.is_some() {
            return Err("start_s, stop_s: not allowed here: the tenant runs while the file is \
                        there"
                .into());
        }
        config.phases.iter_mut().for_each(|phase| phase.source.resolve(&self.folder));
        validate::check_tenant(&config, self.budget_bytes)?;
        Ok(config)
    }

    /// The tenant of a definition runs.
    pub(super) fn started(&mut self, wanted: Wanted) {
        self.problems.remove(&wanted.file);
        self.in_force.insert(wanted.file, wanted.text);
    }

    /// Tells once what is wrong with a file; it is tried again with the next look.
    pub(super) fn refused(&mut self, file: &str, message: String) {
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.problems.get(file) == Some(&message) {
            return;
        }
        let path = self.folder.join(file);
        tracing::warn!(path = %path.display(), "no tenant is started or ended by it: {message}");
        self.failures += 1;
        self.problems.insert(file.to_owned(), message);
    }
}

fn read(path: &Path) -> std::result::Result<String, String> {
    let file = fs::File::open(path).map_err(|e| e.to_string())?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("longer than {MAX_FILE_BYTES} bytes"));
    }
    Ok(text)
}
