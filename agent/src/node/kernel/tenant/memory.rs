// SPDX-License-Identifier: Apache-2.0
//! The memory that a cgroup uses, and the least that it can be given.

use crate::cgroup::fs::CgroupFs;
use std::collections::BTreeMap;
use std::io;

const PAGE_BYTES: u64 = 4096;

/// Memory used by one cgroup and those below it, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// `memory.current`.
    pub current: u64,
    /// Cached file pages, without shared memory, tmpfs and the swap cache.
    pub file: u64,
    /// Anonymous memory.
    pub anon: u64,
    /// Cached file pages that are mapped and in use.
    pub mapped: u64,
    /// Memory that no reclaim can free.
    pub unreclaimable: u64,
    /// The floor: the least limit that the cgroup may be given.
    pub floor: u64,
    /// The least limit that is planned for it. It adds the pages that are mapped and in use, whose
    /// number varies.
    pub planned_floor: u64,
}

impl Usage {
    /// Reads the memory use of a cgroup. `margin` is added to the memory that cannot be reclaimed;
    /// `swap_free` is the free swap space of the machine.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn read(fs: &CgroupFs, cgroup: &str, margin: u64, swap_free: u64) -> io::Result<Self> {
        let stat = fs.keyed(cgroup, "memory.stat")?;
        let of = |key: &str| stat.get(key).copied().unwrap_or(0);
        let unreclaimable = unreclaimable(&stat, swap_room(fs, cgroup, swap_free)?);
        let current = fs.number(cgroup, "memory.current")?;
        // A protection of `max` covers all the memory that the cgroup uses.
        let protection = |name: &str| fs.limit(cgroup, name).map(|bytes| bytes.unwrap_or(current));
        let protected = protection("memory.min")?.max(protection("memory.low")?);
        let mapped = mapped_in_use(&stat);
        let floor = (unreclaimable + margin).max(protected).next_multiple_of(PAGE_BYTES);
        let planned = (unreclaimable + mapped + margin).next_multiple_of(PAGE_BYTES);
        let planned_floor = planned.max(floor);
        Ok(Self {
            current,
            file: CachedFiles::of(&stat).file,
            anon: of("anon"),
            mapped,
            unreclaimable,
            floor,
            planned_floor,
        })
    }

    /// Memory that the curves do not cover: all but the part of the page cache whose accesses are
    /// sampled.
    #[must_use]
    pub fn beside_curves(&self) -> u64 {
        self.current.saturating_sub(self.file.saturating_sub(self.mapped))
    }
}

/// Bytes of files that one cgroup and those below it have in the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachedFiles {
    /// All of them, without shared memory, tmpfs and the swap cache.
    pub file: u64,
    /// Those that are mapped and in use.
    pub mapped: u64,
}

impl CachedFiles {
    /// Reads the file pages of a cgroup.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn read(fs: &CgroupFs, cgroup: &str) -> io::Result<Self> {
        Ok(Self::of(&fs.keyed(cgroup, "memory.stat")?))
    }

    fn of(stat: &BTreeMap<String, u64>) -> Self {
        let of = |key: &str| stat.get(key).copied().unwrap_or(0);
        let file = of("file").saturating_sub(of("shmem") + of("swapcached"));
        Self { file, mapped: mapped_in_use(stat).min(file) }
    }

    /// The part of the page cache that curves cover, as its accesses are sampled.
    #[must_use]
    pub fn on_curves(&self) -> u64 {
        self.file - self.mapped
    }
}

/// Bytes of this cgroup that could still be swapped out.
fn swap_room(fs: &CgroupFs, cgroup: &str, swap_free: u64) -> io::Result<u64> {
    // Without CONFIG_SWAP there are no such files, and no swap.
    let Ok(limit) = fs.limit(cgroup, "memory.swap.max") else { return Ok(0) };
    let used = fs.number(cgroup, "memory.swap.current")?;
    Ok(limit.map_or(swap_free, |limit| limit.saturating_sub(used).min(swap_free)))
}

/// File pages in page tables that reclaim found referenced: program text, mapped databases; in
/// bytes.
///
/// Their accesses are not seen one by one, so no curve shows what losing them costs. The kernel
/// reports how many pages are mapped and how many are active, but not how many are both: the lesser
/// of the two is an upper bound. The kernel's count of mapped pages includes mapped shared memory,
/// which is not page cache and is subtracted.
fn mapped_in_use(stat: &BTreeMap<String, u64>) -> u64 {
    let of = |key: &str| stat.get(key).copied().unwrap_or(0);
    of("file_mapped").saturating_sub(of("shmem")).min(of("active_file"))
}

/// Memory that cannot be reclaimed, bytes. The LRU lists partition all pages. Pages of anonymous
/// and shared memory (tmpfs included) can only go to swap, unevictable ones nowhere. Of the
/// kernel's own memory, only slabs marked so are reclaimable.
fn unreclaimable(stat: &BTreeMap<String, u64>, swap_room: u64) -> u64 {
    let of = |key: &str| stat.get(key).copied().unwrap_or(0);
    let swappable = match stat.contains_key("inactive_anon") {
        true => of("inactive_anon") + of("active_anon"),
        false => of("anon") + of("shmem"),
    };
    // Kernels before 5.18 do not report the sum.
    let parts = ["kernel_stack", "pagetables", "percpu", "vmalloc", "slab_unreclaimable"];
    let kernel = match stat.get("kernel") {
        Some(&kernel) => kernel.saturating_sub(of("slab_reclaimable")),
        None => parts.iter().map(|part| of(part)).sum(),
    };
    swappable.saturating_sub(swap_room) + of("unevictable") + kernel + of("sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::kernel::fake::{Fake, MIB};

    const STAT: &str = "anon 50\nfile 1000\nkernel 40\nsock 3\nshmem 7\ninactive_anon 20\n\
        active_anon 30\ninactive_file 500\nactive_file 400\nunevictable 5\n\
        slab_reclaimable 10\nslab_unreclaimable 20\n";

    fn usage(fake: &Fake, swap_free: u64) -> Usage {
        Usage::read(&fake.fs(), "/a", MIB, swap_free).unwrap()
    }

    #[test]
    fn without_swap_anonymous_memory_stays() {
        let fake = Fake::new(&["/a"]);
        fake.write("/a", "memory.stat", STAT);
        let expected = 20 + 30 + 5 + (40 - 10) + 3;
        assert_eq!(usage(&fake, 1 << 30).unreclaimable, expected);
        fake.write("/a", "memory.swap.max", "max\n");
        assert_eq!(usage(&fake, 0).unreclaimable, expected);
        assert_eq!(usage(&fake, 1 << 30).unreclaimable, expected - 50);
        assert_eq!(usage(&fake, 15).unreclaimable, expected - 15);
        fake.write("/a", "memory.swap.max", "30\n");
        fake.write("/a", "memory.swap.current", "10\n");
        assert_eq!(usage(&fake, 1 << 30).unreclaimable, expected - 20);
    }

    #[test]
    fn kernel_memory_is_added_up_where_there_is_no_sum() {
        let fake = Fake::new(&["/a"]);
        fake.write("/a", "memory.stat", "kernel_stack 1\npagetables 2\nslab_unreclaimable 4\n");
        assert_eq!(usage(&fake, 0).unreclaimable, 7);
    }

    #[test]
    fn mapped_pages_in_use_are_part_of_the_floor_that_is_planned() {
        let fake = Fake::new(&["/a"]);
        for (mapped, in_use) in [(0, 0), (300 << 10, 300 << 10), (900 << 10, 400 << 10)] {
            let stat = format!("active_file {}\nfile_mapped {mapped}\nfile {MIB}\n", 400 << 10);
            fake.write("/a", "memory.stat", &stat);
            let found = usage(&fake, 0);
            assert_eq!((found.mapped, found.planned_floor), (in_use, MIB + in_use));
            assert_eq!(found.floor, MIB);
            assert_eq!(found.beside_curves(), found.current - MIB + in_use);
        }
    }

    #[test]
    fn shared_memory_is_none_of_the_cached_files() {
        let fake = Fake::new(&["/a"]);
        let read = |stat: &str| {
            fake.write("/a", "memory.stat", stat);
            let found = CachedFiles::read(&fake.fs(), "/a").unwrap();
            (found.file, found.mapped, found.on_curves())
        };
        assert_eq!(read("file 1000\nshmem 300\nactive_file 400\n"), (700, 0, 700));
        let mapped = "file 1000\nshmem 300\nswapcached 50\nactive_file 400\nfile_mapped 500\n";
        assert_eq!(read(mapped), (650, 200, 450));
        assert_eq!(read("shmem 300\nactive_file 9\nfile_mapped 500\n"), (0, 0, 0));
    }

    #[test]
    fn mapped_shared_memory_is_not_counted_twice() {
        let fake = Fake::new(&["/a"]);
        let stat =
            "active_file 400\nfile_mapped 900\nshmem 700\ninactive_anon 700\nactive_anon 0\n";
        fake.write("/a", "memory.stat", stat);
        let found = usage(&fake, 0);
        assert_eq!((found.mapped, found.unreclaimable), (200, 700));
    }

    #[test]
    fn shared_memory_takes_room_beside_the_page_cache() {
        let fake = Fake::new(&["/a"]);
        fake.write("/a", "memory.stat", "file 1000\nshmem 700\nswapcached 100\nactive_file 0\n");
        let found = usage(&fake, 0);
        assert_eq!((found.file, found.beside_curves()), (200, found.current - 200));
    }

    #[test]
    fn the_floor_has_a_margin_and_respects_protection() {
        let fake = Fake::new(&["/a"]);
        fake.write("/a", "memory.stat", STAT);
        assert_eq!(usage(&fake, 0).floor, MIB + PAGE_BYTES);
        fake.write("/a", "memory.low", &format!("{}\n", 5 * MIB));
        assert_eq!(usage(&fake, 0).floor, 5 * MIB);
        fake.write("/a", "memory.min", &format!("{}\n", 6 * MIB));
        assert_eq!(usage(&fake, 0).floor, 6 * MIB);
        fake.write("/a", "memory.min", "max\n");
        assert_eq!(usage(&fake, 0).floor, 64 * MIB);
    }
}
