// SPDX-License-Identifier: Apache-2.0
//! Loads an object file. Its programs pass the verifier and its maps exist, but nothing is
//! attached.

use super::folder::PolicyFile;
use super::ops_layout::{OpsLayout, Registered};
use super::sized::cut_state;
use crate::bpf::checked;
use crate::bpf::messages::{self, Recording};
use crate::error::{Error, Result};
use libbpf_rs::{Map, MapCore, MapType, Object, ObjectBuilder, OpenObject};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Section of the tunables, and name of its map; see `bpf/include/kernel_api.h`.
const TUNABLES_MAP: &str = ".data.tunables";
/// End of the name of the map that contains `POLICY_STATE`.
const STATE_MAP_END: &str = ".bss";
/// Makes the verifier report stack sizes and little else (`BPF_LOG_STATS`).
const LOG_STATS: u32 = 4;

/// A policy in the kernel. It is removed when this value is dropped, unless it is attached or
/// pinned.
pub struct LoadedPolicy {
    object: Object,
    name: String,
}

impl LoadedPolicy {
    /// Loads a policy with these values of its tunables, for a cgroup of at most `pages`.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] with the last line of the verifier or of libbpf.
    pub fn load(file: &PolicyFile, tunables: &[u32], pages: u64) -> Result<Self> {
        let recording = Recording::start();
        Self::try_load(file, tunables, pages, 0).map_err(|source| Error::Refused {
            policy: file.manifest.name.clone(),
            message: messages::decisive(&recording.text(), 1).pop().unwrap_or(source.to_string()),
        })
    }

    /// Loads a policy with its defaults, for a cgroup of any size. Returns the verifier's log as
    /// well.
    ///
    /// # Errors
    /// Returns the last `lines` of the log.
    pub fn load_verbose(
        file: &PolicyFile,
        lines: usize,
    ) -> std::result::Result<(Self, String), Vec<String>> {
        let recording = Recording::start();
        let tunables = file.manifest.tunable_defaults();
        if let Ok(policy) = Self::try_load(file, &tunables, u64::MAX, LOG_STATS) {
            return Ok((policy, recording.text()));
        }
        // At a log level of 0, libbpf requests the full log when a load fails.
        recording.restart();
        let source = match Self::try_load(file, &tunables, u64::MAX, 0) {
            Ok(policy) => return Ok((policy, String::new())),
            Err(source) => source,
        };
        let said = messages::decisive(&recording.text(), lines);
        Err(if said.is_empty() { vec![source.to_string()] } else { said })
    }

    fn try_load(
        file: &PolicyFile,
        tunables: &[u32],
        pages: u64,
        log: u32,
    ) -> libbpf_rs::Result<Self> {
        let mut open = ObjectBuilder::default().open_file(&file.object)?;
        set_tunables(&mut open, tunables)?;
        cut_state(&mut open, pages)?;
        for mut program in open.progs_mut() {
            program.set_log_level(log);
        }
        Ok(Self { object: open.load()?, name: file.manifest.name.clone() })
    }

    /// Registers the policy: passes to the kernel which programs are its hooks and which cgroup it
    /// is for. The map can be attached afterwards.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the kernel does not know a hook, and an error if it refuses
    /// the table.
    pub fn register(&self, layout: &OpsLayout, cgroup_id: u64) -> Result<()> {
        let refused = |message: String| Error::Refused { policy: self.name.clone(), message };
        let what = Registered { policy: self.name.clone(), cgroup_id };
        let value = layout
            .encode(&what, &self.hooks())
            .map_err(|hook| refused(format!("it has no hook {hook}")))?;
        let table = self.table()?;
        let bytes = table.info().map_err(|e| refused(e.to_string()))?.info.value_size as usize;
        if bytes != value.len() {
            return Err(refused(format!("its table has {bytes} bytes, not {}", value.len())));
        }
        let key = 0_u32;
        // SAFETY: key and value have the sizes of the map's, by the check above.
        checked(unsafe {
            libbpf_sys::bpf_map_update_elem(
                table.as_fd().as_raw_fd(),
                (&raw const key).cast(),
                value.as_ptr().cast(),
                0,
            )
        })
        .map_err(Error::kernel(format!("registering policy {}", self.name)))?;
        Ok(())
    }

    /// The hooks, with the descriptors of their programs.
    fn hooks(&self) -> Vec<(String, i32)> {
        self.programs().map(|(hook, fd)| (hook, fd.as_raw_fd())).collect()
    }

    /// The hooks and their programs, which are named `POLICY_HOOK`.
    pub fn programs(&self) -> impl Iterator<Item = (String, BorrowedFd<'_>)> {
        self.object.progs().map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            let hook = name.strip_prefix(&format!("{}_", self.name)).map(Into::into);
            // SAFETY: the program is open as long as the object, which outlives the result.
            let fd = unsafe { BorrowedFd::borrow_raw(program.as_fd().as_raw_fd()) };
            (hook.unwrap_or(name), fd)
        })
    }

    fn map(&self, wanted: impl Fn(&Map<'_>) -> bool) -> Option<Map<'_>> {
        self.object.maps().find(wanted)
    }

    /// The map that is the table of hooks.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the object has none.
    pub fn table(&self) -> Result<Map<'_>> {
        let table = self.map(|map| map.map_type() == MapType::StructOps);
        table.ok_or_else(|| Error::Refused {
            policy: self.name.clone(),
            message: "no table of hooks (CACHE_EXT_OPS) in the object".into(),
        })
    }

    /// The id of the table of hooks.
    ///
    /// # Errors
    /// As [`Self::table`], or the error of the operating system.
    pub fn table_id(&self) -> Result<u32> {
        let info = self.table()?.info().map_err(io::Error::other);
        Ok(info.map_err(Error::kernel(format!("policy {}", self.name)))?.info.id)
    }

    /// The map of the tunables.
    #[must_use]
    pub fn tunables_map(&self) -> Option<Map<'_>> {
        self.map(|map| map.name() == TUNABLES_MAP)
    }

    /// The map of the policy's state.
    #[must_use]
    pub fn state_map(&self) -> Option<Map<'_>> {
        self.map(|map| map.name().to_string_lossy().ends_with(STATE_MAP_END))
    }
}

fn set_tunables(open: &mut OpenObject, tunables: &[u32]) -> libbpf_rs::Result<()> {
    if tunables.is_empty() {
        return Ok(());
    }
    let bytes: Vec<u8> = tunables.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let map = open.maps_mut().find(|map| map.name() == TUNABLES_MAP);
    let mut map = map.ok_or_else(|| io::Error::other(format!("no section {TUNABLES_MAP}")))?;
    map.set_initial_value(&bytes)
}
