// SPDX-License-Identifier: Apache-2.0
//! How the files of a folder affect the engine: tenants appear and disappear with their
//! definitions, and lists of pages beside these are written and read.

use super::super::folder::definitions::{Definitions, Wanted};
use super::super::folder::files::{Listing, Told, definition_of, name_of};
use super::super::folder::page_files::PageFiles;
use super::super::validate::MAX_TENANTS;
use super::{Engine, Slot, Stage, WARMING};
use crate::error::Result;
use cachepilot_models::hash::page_hash;
use std::path::{Path, PathBuf};

/// The folder, and the state of its files.
pub(super) struct Folder {
    path: PathBuf,
    definitions: Definitions,
    page_files: PageFiles,
}

impl Folder {
    /// Opens the folder.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub(super) fn new(path: &Path, budget_bytes: u64) -> Result<Self> {
        let definitions = Definitions::new(path, budget_bytes)?;
        Ok(Self { path: path.to_path_buf(), definitions, page_files: PageFiles::new(path) })
    }

    /// Number of problems found so far.
    pub(super) fn failures(&self) -> u64 {
        self.definitions.failures() + self.page_files.failures()
    }
}

impl Engine {
    /// Reads the folder and does what its files say.
    pub(super) fn look_at_folder(&mut self) {
        let Some(mut folder) = self.folder.take() else { return };
        match Listing::of(&folder.path) {
            Ok(listing) => self.follow(&mut folder, &listing),
            Err(message) => folder.definitions.refused("", &message),
        }
        self.folder = Some(folder);
    }

    /// Tenants come first, since a new one takes the pages that were read for it.
    fn follow(&mut self, folder: &mut Folder, listing: &Listing) {
        let look = folder.definitions.look(&listing.definitions);
        self.end(|slot| slot.file.as_ref().is_some_and(|file| look.gone.contains(file)));
        for wanted in look.wanted {
            match self.admit(&wanted) {
                Ok(()) => {
                    // Beside a tenant that runs already, the lists are those that were requested
                    // for it.
                    if !folder.definitions.runs(&wanted.file) {
                        let name = name_of(&wanted.file);
                        folder.page_files.tenant_began(name, listing, &mut self.warming);
                    }
                    folder.definitions.started(wanted);
                }
                Err(message) => folder.definitions.refused(&wanted.file, &message),
            }
        }
        for name in &listing.asked {
            let file = definition_of(name);
            for slot in self.slots.iter().filter(|slot| slot.file.as_deref() == Some(&file)) {
                if let Stage::Here(tenant) = &slot.stage {
                    folder.page_files.answer(name, tenant);
                }
            }
        }
        folder.page_files.look(listing, &mut self.warming);
        if self.warming.wakes() {
            self.await_turn(self.now_ns, WARMING, 0);
        }
    }

    /// Starts the tenant of a file, and replaces the one that the file defined before. If the new
    /// one cannot start, the old one continues.
    fn admit(&mut self, wanted: &Wanted) -> Told<()> {
        let (config, file) = (&wanted.config, Some(wanted.file.as_str()));
        let is_other =
            |slot: &&Slot| !matches!(slot.stage, Stage::Gone(_)) && slot.file.as_deref() != file;
        if self.slots.iter().filter(is_other).any(|slot| slot.config.cgroup == config.cgroup) {
            return Err(format!("cgroup: {}: another tenant has it", config.cgroup));
        }
        if self.slots.iter().filter(is_other).count() >= MAX_TENANTS {
            return Err(format!("number of tenants: more than {MAX_TENANTS}"));
        }
        let slot = Slot {
            config: config.clone(),
            file: Some(wanted.file.clone()),
            turns: 0,
            start_ns: self.now_ns,
            stop_ns: u64::MAX,
            seed: page_hash(self.seed ^ of_name(&config.cgroup)),
            stage: Stage::Awaited,
        };
        let mut tenant = self.make(&slot, self.next_id).map_err(|e| e.to_string())?;
        let pages = self.warming.so_far(name_of(&wanted.file));
        tenant.adopt(pages).map_err(|e| e.to_string())?;
        self.end(|slot| slot.file.as_deref() == file);
        let is_free = |slot: &Slot| matches!(slot.stage, Stage::Gone(_)) && slot.turns == 0;
        let i = self.slots.iter().position(is_free).unwrap_or(self.slots.len());
        if i == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[i] = slot;
        }
        self.begin(i, tenant);
        Ok(())
    }
}

/// A seed that depends only on the name of a tenant, wherever it runs.
fn of_name(cgroup: &str) -> u64 {
    cgroup.bytes().fold(0, |hash, byte| page_hash(hash ^ u64::from(byte)))
}
