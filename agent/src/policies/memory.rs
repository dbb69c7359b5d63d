// SPDX-License-Identifier: Apache-2.0
//! Kernel memory of policies. It is charged to the process that loads them, and stays charged as
//! long as they are attached.

use super::folder::PolicyFile;
use super::pins::CgroupPins;
use super::sized::cut_state;
use crate::bpf::messages::Recording;
use crate::error::{Error, Result};
use libbpf_rs::{MapCore, MapHandle, MapType, ObjectBuilder};

const PAGE_BYTES: u64 = 4096;
/// What the kernel adds to an entry of a hash map.
const HASH_ENTRY_BYTES: u64 = 64;
/// The programs of a policy, their types and the table of hooks, with what the kernel keeps about
/// each function. Of the shipped policies, these take 13 to 93 KiB, as charged by the kernel.
const PROGRAMS_BYTES: u64 = 96 << 10;

/// The most memory that the policies of a node may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyMemory {
    /// The limit, MiB.
    pub mib: u64,
}

impl PolicyMemory {
    /// Refuses a policy of this many bytes beside others of `others` bytes in all if both together
    /// exceed the limit.
    ///
    /// # Errors
    /// Returns [`Error::PolicyMemory`].
    pub fn check(self, policy: &str, bytes: u64, others: u64) -> Result<()> {
        if bytes.saturating_add(others) <= self.mib << 20 {
            return Ok(());
        }
        Err(Error::PolicyMemory { policy: policy.into(), bytes, others, mib: self.mib })
    }
}

/// The memory that a compiled policy takes when it is attached to a cgroup of at most `pages`. The object is opened, but not
/// loaded, so that a policy beyond the limit is refused before the kernel charges anything.
///
/// # Errors
/// Returns an error if the file is no object of libbpf's format.
pub fn of_file(file: &PolicyFile, pages: u64) -> Result<u64> {
    let recording = Recording::start();
    let open = ObjectBuilder::default().open_file(&file.object).and_then(|mut open| {
        cut_state(&mut open, pages)?;
        Ok(open)
    });
    let open = open.map_err(|error| Error::format(&file.object, error.to_string()))?;
    drop(recording);
    let maps = open.maps().filter(|map| map.map_type() != MapType::StructOps);
    let bytes = maps
        .map(|map| map_bytes(map.map_type(), map.key_size(), map.value_size(), map.max_entries()));
    Ok(bytes.sum::<u64>() + PROGRAMS_BYTES)
}

/// The memory of what is pinned for a cgroup, 0 if nothing is.
///
/// # Errors
/// Returns the error of the operating system.
pub fn of_pins(pins: &CgroupPins) -> Result<u64> {
    let mut bytes = 0;
    for path in pins.maps()? {
        let map = MapHandle::from_pinned_path(&path)
            .map_err(|error| Error::io(&path)(std::io::Error::other(error)))?;
        bytes += map_bytes(map.map_type(), map.key_size(), map.value_size(), map.max_entries());
    }
    Ok(if bytes > 0 { bytes + PROGRAMS_BYTES } else { 0 })
}

/// The memory of a map. Its header has a page of its own, as in maps that user space can map.
fn map_bytes(kind: MapType, key_bytes: u32, value_bytes: u32, entries: u32) -> u64 {
    let entry = match kind {
        MapType::Array => u64::from(value_bytes).next_multiple_of(8),
        _ => u64::from(key_bytes) + u64::from(value_bytes) + HASH_ENTRY_BYTES,
    };
    PAGE_BYTES + (entry * u64::from(entries)).next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_take_whole_pages_and_one_for_the_header() {
        assert_eq!(map_bytes(MapType::Array, 4, 16, 1), 2 * PAGE_BYTES);
        assert_eq!(map_bytes(MapType::Array, 4, 2_162_768, 1), 4096 + 2_166_784);
        assert_eq!(map_bytes(MapType::Array, 4, 4, 1024), 3 * PAGE_BYTES);
        assert_eq!(map_bytes(MapType::Hash, 8, 8, 1000), 4096 + 81_920);
        assert_eq!(map_bytes(MapType::Array, u32::MAX, u32::MAX, 0), PAGE_BYTES);
    }

    #[test]
    fn a_policy_beyond_the_limit_is_refused_with_its_size_and_the_key_of_the_limit() {
        let limit = PolicyMemory { mib: 3 };
        limit.check("lfu", 1 << 20, 2 << 20).unwrap();
        let refused = limit.check("wtinylfu", (1 << 20) + 1, 2 << 20).unwrap_err();
        assert!(matches!(refused, Error::PolicyMemory { .. }));
        assert_eq!(
            refused.to_string(),
            "policy wtinylfu needs 1048577 bytes beside the 2097152 of the policies that are \
             attached: more than policy_memory_mib = 3 of [kernel] allows"
        );
        assert!(limit.check("wtinylfu", 1, u64::MAX).is_err());
    }

    #[test]
    fn a_file_that_is_no_object_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let object = dir.path().join("lfu.bpf.o");
        std::fs::write(&object, "nothing").unwrap();
        let manifest = cachepilot_models::policy::find("lfu").unwrap().manifest.clone();
        let error = of_file(&PolicyFile { object, manifest }, u64::MAX).unwrap_err().to_string();
        assert!(error.contains("lfu.bpf.o: "), "{error}");
    }
}
