// SPDX-License-Identifier: Apache-2.0
//! Policies whose state has an element for each page that their cgroup can have; see
//! `POLICY_STATE_BY_PAGES` in `bpf/include/kernel_api.h`.

use super::foreign::{find_global, set_global};
use crate::cgroup::Cgroup;
use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, OpenObject};
use std::fs;
use std::io;
use std::path::Path;

/// Variables of the object: the number of elements, the bytes of one, and the state itself.
const PAGES: &str = "cache_ext_state_pages";
const PAGE_BYTES: &str = "cache_ext_state_page_bytes";
const STATE: &str = "cache_ext_state";
/// The least number of elements that policies may rely on.
const LEAST_PAGES: u64 = 512;

/// The most pages that a cgroup can have by `memory.max`, its own and that of the cgroups above it,
/// and by the memory of this machine.
pub fn most_pages(cgroup: &Cgroup) -> u64 {
    // SAFETY: the calls take numbers only.
    let [page_bytes, machine] = [libc::_SC_PAGESIZE, libc::_SC_PHYS_PAGES]
        .map(|name| u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(u64::MAX));
    least_limit(&cgroup.path).map_or(machine, |bytes| machine.min(bytes.div_ceil(page_bytes)))
}

/// The least `memory.max` of a folder and those above it, bytes; `None` without a limit.
fn least_limit(dir: &Path) -> Option<u64> {
    let limit = |dir: &Path| fs::read_to_string(dir.join("memory.max")).ok()?.trim().parse().ok();
    dir.ancestors().filter_map(limit).min()
}

/// Cuts the state of a policy to what a cgroup of this many pages needs. Does nothing to a policy
/// whose state has one size.
///
/// # Errors
/// Returns an error if the object does not have the layout of such a policy.
pub fn cut_state(open: &mut OpenObject, pages: u64) -> libbpf_rs::Result<()> {
    // SAFETY: the types are used while the object is open, and not after it is loaded.
    let Some(types) = Btf::from_bpf_object(unsafe { open.as_libbpf_object().as_ref() })? else {
        return Ok(());
    };
    let Some(most) = read_global(open, &types, PAGES) else { return Ok(()) };
    let odd = || io::Error::other(format!("{STATE} is not the last variable of its section"));
    let element = read_global(open, &types, PAGE_BYTES).ok_or_else(odd)?;
    let (section, state) = find_global(&types, STATE).ok_or_else(odd)?;
    let wanted = elements(pages, most);
    set_global(open, &types, PAGES, wanted)?;
    let map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(section));
    let mut map = map.filter(|map| map.value_size() as usize == state.end).ok_or_else(odd)?;
    let cut = u32::try_from((most - wanted) * element).map_err(io::Error::other)?;
    map.set_value_size(map.value_size().checked_sub(cut).ok_or_else(odd)?)
}

/// The number of elements for a cgroup of this many pages, at most `most`, a power of two.
fn elements(pages: u64, most: u64) -> u64 {
    pages.clamp(LEAST_PAGES.min(most), most).next_power_of_two()
}

fn read_global(open: &OpenObject, types: &Btf<'_>, name: &str) -> Option<u64> {
    let (section, range) = find_global(types, name)?;
    let map = open.maps().find(|map| map.name().to_string_lossy().ends_with(section))?;
    Some(u64::from_ne_bytes(map.initial_value()?.get(range)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_a_power_of_two_within_bounds() {
        for (pages, expected) in
            [(0, 512), (1, 512), (513, 1024), (1 << 17, 1 << 17), (u64::MAX, 1 << 18)]
        {
            assert_eq!(elements(pages, 1 << 18), expected, "{pages}");
        }
        assert_eq!(elements(1000, 64), 64);
    }

    #[test]
    fn the_least_limit_above_a_cgroup_counts() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let write = |at: &Path, text: &str| fs::write(at.join("memory.max"), text).unwrap();
        assert_eq!(least_limit(&inner), None);
        write(&inner, "max\n");
        assert_eq!(least_limit(&inner), None);
        write(&dir.path().join("a"), "1048576\n");
        assert_eq!(least_limit(&inner), Some(1 << 20));
        write(&inner, "4096\n");
        assert_eq!(least_limit(&inner), Some(4096));
        write(&inner, "2097152\n");
        assert_eq!(least_limit(&inner), Some(1 << 20));
    }
}
