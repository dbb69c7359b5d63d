// SPDX-License-Identifier: Apache-2.0
//! A folder of tenants, in which one file is one tenant, as with kubelet's static pods. A tenant
//! starts when its file appears and stops when the file is removed.

use super::super::config::TenantConfig;
use super::super::validate;
use super::files::{Problems, Told, read};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A longer file is not a definition of a tenant.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A definition that is not yet in force.
pub(in super::super) struct Wanted {
    pub(in super::super) file: String,
    pub(in super::super) config: TenantConfig,
    text: String,
}

/// The result of reading the folder.
pub(in super::super) struct Look {
    /// Removed files whose tenants ran.
    pub(in super::super) gone: Vec<String>,
    /// New files, and files with a new content.
    pub(in super::super) wanted: Vec<Wanted>,
}

/// The folder, the definitions in force, and the problems.
pub(in super::super) struct Definitions {
    folder: PathBuf,
    budget_bytes: u64,
    /// Text of each file whose tenant runs.
    in_force: BTreeMap<String, String>,
    problems: Problems,
}

impl Definitions {
    /// Opens the folder.
    ///
    /// # Errors
    /// Returns [`Error::Io`] if the folder cannot be read.
    pub(in super::super) fn new(folder: &Path, budget_bytes: u64) -> Result<Self> {
        fs::read_dir(folder).map_err(Error::io(folder))?;
        Ok(Self {
            folder: folder.to_path_buf(),
            budget_bytes,
            in_force: BTreeMap::new(),
            problems: Problems::new(folder, "no tenant is started or ended by it"),
        })
    }

    /// Reads the definitions of the folder. A file that cannot be read or parsed is reported, and
    /// stops no tenant.
    pub(in super::super) fn look(&mut self, names: &BTreeSet<String>) -> Look {
        self.problems.keep(|name| names.contains(name));
        let gone: Vec<String> =
            self.in_force.keys().filter(|name| !names.contains(*name)).cloned().collect();
        self.in_force.retain(|name, _| names.contains(name));
        let wanted = names.iter().filter_map(|name| self.wanted(name)).collect();
        Look { gone, wanted }
    }

    fn wanted(&mut self, file: &str) -> Option<Wanted> {
        let text = match self.text(file) {
            Ok(text) => text,
            Err(message) => {
                self.refused(file, &message);
                return None;
            }
        };
        if self.in_force.get(file) == Some(&text) {
            self.problems.solved(file);
            return None;
        }
        match self.parsed(&text) {
            Ok(config) => Some(Wanted { file: file.to_owned(), config, text }),
            Err(message) => {
                self.refused(file, &message);
                None
            }
        }
    }

    fn text(&self, file: &str) -> Told<String> {
        let bytes = read(&self.folder.join(file), MAX_FILE_BYTES)?;
        String::from_utf8(bytes).map_err(|e| e.to_string())
    }

    fn parsed(&self, text: &str) -> Told<TenantConfig> {
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

    /// Whether a tenant of this file runs.
    pub(in super::super) fn runs(&self, file: &str) -> bool {
        self.in_force.contains_key(file)
    }

    /// Records that the tenant of a definition runs.
    pub(in super::super) fn started(&mut self, wanted: Wanted) {
        self.problems.solved(&wanted.file);
        self.in_force.insert(wanted.file, wanted.text);
    }

    /// Reports once what is wrong with a file, or with the folder, whose name is empty. It is tried
    /// again at the next read.
    pub(in super::super) fn refused(&mut self, file: &str, message: &str) {
        self.problems.found(file, message);
    }

    /// Number of problems found so far.
    pub(in super::super) fn failures(&self) -> u64 {
        self.problems.count
    }
}
