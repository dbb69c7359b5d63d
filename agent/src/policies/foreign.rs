// SPDX-License-Identifier: Apache-2.0
//! Objects without a manifest: any object with a table of `struct cache_ext_ops`, such as the
//! policies published with cache_ext. Their names and what can be set in them are read from the
//! object itself.

use super::ops_layout::members;
use super::pins::CgroupPins;
use super::settings::Setting;
use crate::bpf::link::pin;
use crate::bpf::messages::{self, Recording};
use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Struct, Var};
use libbpf_rs::{
    AsRawLibbpf, HasSize, Link, MapCore, MapFlags, MapType, Object, ObjectBuilder, OpenObject,
};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const OPS_STRUCT: &str = "cache_ext_ops";
/// The `flags` of the table that policies written for the published kernel rely on: requests that
/// come one after another, and the right to leave a request to the kernel.
const AS_PUBLISHED: u64 = 1 | 2;
const SECTIONS: [&str; 3] = [".rodata", ".data", ".bss"];
/// The map of inodes that a published policy is for, and the variable that tells it whether there
/// are any; see `bpf/include/compat/dir_watcher.bpf.h`.
const WATCH_LIST: &str = "inode_watchlist";
const WATCH_LENGTH: &str = "watch_dir_path_len";
/// The variable in which published policies expect the size of their cgroup in pages.
const CACHE_SIZE: &str = "cache_size";
/// Sections of the programs that are loaded: hooks, and programs that user space may run.
const LOADED: [&str; 2] = ["struct_ops", "syscall"];

/// An object file, and the changes to make in it before it is loaded.
#[derive(Debug, Clone, Default)]
pub struct ObjectFile {
    /// The file.
    pub path: PathBuf,
    /// Global variables and their values.
    pub globals: Vec<Setting>,
    /// Maps and the maximum number of entries of each.
    pub max_entries: Vec<Setting>,
    /// The directory whose files the policy is for.
    pub watch: Option<PathBuf>,
}

/// A policy in the kernel for one cgroup, not attached yet.
pub struct ForeignPolicy {
    object: Object,
    /// Name of its table.
    pub name: String,
}

impl ForeignPolicy {
    /// Loads the object for a cgroup.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] with the last line of the verifier or of libbpf.
    pub fn load(file: &ObjectFile, cgroup: &Cgroup) -> Result<Self> {
        let inodes = file.watch.as_deref().map(inodes_below).transpose()?;
        let recording = Recording::start();
        let loaded = try_load(file, cgroup).and_then(|policy| {
            inodes.map_or(Ok(()), |inodes| policy.watch(&inodes))?;
            Ok(policy)
        });
        loaded.map_err(|source| Error::Refused {
            policy: file.path.display().to_string(),
            message: messages::decisive(&recording.text(), 1).pop().unwrap_or(source.to_string()),
        })
    }

    /// Attaches the policy by a pinned link. Pins its maps and its programs for user space beside
    /// it.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn attach(&mut self, pins: &CgroupPins) -> Result<()> {
        for map in self.object.maps().filter(|map| map.map_type() != MapType::StructOps) {
            let path = pins.named("map", &map.name().to_string_lossy());
            pin(map.as_fd(), &path).map_err(Error::io(&path))?;
        }
        for program in self.object.progs().filter(|program| program.section() == "syscall") {
            let path = pins.named("program", &program.name().to_string_lossy());
            pin(program.as_fd(), &path).map_err(Error::io(&path))?;
        }
        self.link()
            .and_then(|mut link| link.pin(pins.link()))
            .map_err(io::Error::other)
            .map_err(Error::kernel(format!("attaching {}", self.name)))
    }

    fn link(&mut self) -> libbpf_rs::Result<Link> {
        let mut tables = self.object.maps_mut().filter(|map| map.map_type() == MapType::StructOps);
        tables.next().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.attach_struct_ops()
    }

    fn watch(&self, inodes: &[u64]) -> libbpf_rs::Result<()> {
        let list = self.object.maps().find(|map| map.name() == WATCH_LIST);
        let list = list.ok_or_else(|| io::Error::other(format!("it has no map {WATCH_LIST}")))?;
        let mut value = vec![0; list.value_size() as usize];
        value[0] = 1;
        inodes.iter().try_for_each(|inode| list.update(&inode.to_ne_bytes(), &value, MapFlags::ANY))
    }
}

fn try_load(file: &ObjectFile, cgroup: &Cgroup) -> libbpf_rs::Result<ForeignPolicy> {
    let mut open = ObjectBuilder::default().open_file(&file.path)?;
    // The types of the open object are used, because in the file, variables do not have their
    // offsets yet.
    //
    // SAFETY: they are used while the object is open, and not after it is loaded.
    let types = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() })?;
    let types = types.ok_or_else(|| io::Error::other("it has no type information"))?;
    let name = set_table(&mut open, &types, cgroup.id)?;
    set_sizes(&mut open, &types, cgroup)?;
    for setting in &file.globals {
        set_global(&mut open, &types, &setting.key, setting.value)?;
    }
    if let Some(dir) = &file.watch {
        set_global(&mut open, &types, WATCH_LENGTH, dir.as_os_str().len() as u64)?;
    }
    for Setting { key, value } in &file.max_entries {
        let map = open.maps_mut().find(|map| map.name() == key.as_str());
        let mut map = map.ok_or_else(|| io::Error::other(format!("it has no map {key}")))?;
        map.set_max_entries(u32::try_from(*value).map_err(io::Error::other)?)?;
    }
    for mut program in open.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        program.set_autoload(LOADED.iter().any(|loaded| section.starts_with(loaded)));
    }
    Ok(ForeignPolicy { object: open.load()?, name })
}

/// Writes the cgroup and the flags into the table of hooks, and a name if the table has none.
/// Returns the name.
fn set_table(open: &mut OpenObject, types: &Btf<'_>, cgroup_id: u64) -> libbpf_rs::Result<String> {
    let missing =
        |what| io::Error::other(format!("{what} (see docs/reference/published_policies.md)"));
    let ops: Struct<'_> =
        types.type_by_name(OPS_STRUCT).ok_or_else(|| missing("no struct cache_ext_ops"))?;
    let place = |member| members(&ops).find(|(name, _)| *name == member).map(|(_, at)| at);
    let (id, name) = place("cgroup_id")
        .zip(place("name"))
        .ok_or_else(|| missing("its struct cache_ext_ops has no cgroup_id and name"))?;
    let mut tables = open.maps_mut().filter(|map| map.map_type() == MapType::StructOps);
    let mut table = tables.next().ok_or_else(|| missing("it has no table of hooks"))?;
    let called = table.name().to_string_lossy().into_owned();
    let value = table.initial_value_mut().unwrap_or_default();
    let value = value.get_mut(..ops.size()).ok_or_else(|| missing("its table is too small"))?;
    value[id..id + size_of::<u64>()].copy_from_slice(&cgroup_id.to_ne_bytes());
    let flags = place("flags");
    if let Some(flags) = flags {
        value[flags..flags + size_of::<u64>()].copy_from_slice(&AS_PUBLISHED.to_ne_bytes());
    }
    // Only flags follow the name, whose last byte is the terminator.
    let room = &mut value[name..flags.unwrap_or(ops.size()) - 1];
    if room.iter().all(|&byte| byte == 0) {
        let bytes = called.len().min(room.len());
        room[..bytes].copy_from_slice(&called.as_bytes()[..bytes]);
    }
    let set = room.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(set).into_owned())
}

/// Sets what published loaders derive from the size of the cgroup: a variable, and the entries of
/// maps without a size. A map whose keys are folios needs no more entries than the machine has
/// pages.
fn set_sizes(open: &mut OpenObject, types: &Btf<'_>, cgroup: &Cgroup) -> libbpf_rs::Result<()> {
    // SAFETY: the call takes numbers only.
    let [page_bytes, machine] = [libc::_SC_PAGESIZE, libc::_SC_PHYS_PAGES]
        .map(|name| u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(1));
    let limit = cgroup.read("memory.max")?;
    let pages = limit.trim().parse().map_or(machine, |bytes: u64| machine.min(bytes / page_bytes));
    if find_global(types, CACHE_SIZE).is_some() {
        set_global(open, types, CACHE_SIZE, pages)?;
    }
    let hashes = [MapType::Hash, MapType::LruHash];
    for mut map in open.maps_mut().filter(|map| hashes.contains(&map.map_type())) {
        let wanted = match u64::from(map.max_entries()) {
            0 => pages,
            entries => entries.min(machine),
        };
        map.set_max_entries(u32::try_from(wanted).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

pub(super) fn set_global(
    open: &mut OpenObject,
    types: &Btf<'_>,
    name: &str,
    value: u64,
) -> libbpf_rs::Result<()> {
    let unknown = || io::Error::other(format!("it has no global variable {name}"));
    let (section, range) = find_global(types, name).ok_or_else(unknown)?;
    let map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(section));
    let mut map = map.ok_or_else(unknown)?;
    let bytes = value.to_le_bytes();
    let fits = range.len() <= bytes.len() && bytes[range.len()..].iter().all(|&byte| byte == 0);
    let place = map.initial_value_mut().and_then(|all| all.get_mut(range.clone()));
    match place.filter(|_| fits) {
        Some(place) => place.copy_from_slice(&bytes[..range.len()]),
        None => Err(io::Error::other(format!("{value} does not fit into {name}")))?,
    }
    Ok(())
}

/// The section of a global variable, and its range of bytes there.
pub(super) fn find_global(
    types: &Btf<'_>,
    name: &str,
) -> Option<(&'static str, std::ops::Range<usize>)> {
    SECTIONS.into_iter().find_map(|section| {
        let all: DataSec<'_> = types.type_by_name(section)?;
        let found = all.iter().find(|entry| {
            let variable: Option<Var<'_>> = types.type_by_id(entry.ty);
            variable.and_then(|variable| variable.name()) == Some(OsStr::new(name))
        })?;
        Some((section, found.offset as usize..found.offset as usize + found.size))
    })
}

/// Inodes of all files below a directory.
fn inodes_below(dir: &Path) -> Result<Vec<u64>> {
    let mut inodes = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io(dir))?.flatten() {
        let path = entry.path();
        let meta = entry.metadata().map_err(Error::io(&path))?;
        if meta.is_dir() {
            inodes.extend(inodes_below(&path)?);
        } else if meta.is_file() {
            inodes.push(meta.ino());
        }
    }
    Ok(inodes)
}
