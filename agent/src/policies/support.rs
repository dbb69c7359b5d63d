// SPDX-License-Identifier: Apache-2.0
//! Checks whether this process can load policies on this kernel.

use super::kind::Kind;
use super::ops_layout::OpsLayout;
use crate::error::{Error, Result};
use libbpf_rs::btf::Btf;
use std::path::Path;

/// Checks for eviction policies. This gives one early line where loading would fail late with many.
///
/// # Errors
/// Returns [`Error::NotRoot`] or [`Error::NoCacheExt`].
pub fn check() -> Result<OpsLayout> {
    check_kind(Kind::Eviction)
}

/// As [`check`], for policies of a kind.
///
/// # Errors
/// As [`check`].
pub fn check_kind(kind: Kind) -> Result<OpsLayout> {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err(Error::NotRoot);
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(Error::NoCacheExt("it describes no types (CONFIG_DEBUG_INFO_BTF)"));
    }
    let types = Btf::from_vmlinux()
        .map_err(|_| Error::NoCacheExt("its types (/sys/kernel/btf/vmlinux) cannot be read"))?;
    OpsLayout::of(&types, kind.ops_struct()).ok_or(Error::NoCacheExt(match kind {
        Kind::Eviction => "struct cache_ext_ops is not among its types",
        Kind::Readahead => "struct cache_ext_prefetch_ops is not among its types",
    }))
}
