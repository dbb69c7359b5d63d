// SPDX-License-Identifier: Apache-2.0
//! Links that attach a struct_ops map, made with plain system calls, because one process creates
//! them and another updates them.

use super::checked;
use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// A link of a struct_ops map. The last reference to it, this one or a pin, keeps the policy
/// attached.
#[derive(Debug)]
pub struct OpsLink(OwnedFd);

impl OpsLink {
    /// Attaches a map whose value is set.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn create(map: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: the options may be absent.
        let fd = checked(unsafe {
            libbpf_sys::bpf_link_create(map.as_raw_fd(), 0, libbpf_sys::BPF_STRUCT_OPS, ptr::null())
        })?;
        // SAFETY: the call returned a new descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Opens the link pinned at `path`.
    ///
    /// # Errors
    /// Returns the error of the operating system; `NotFound` if nothing is pinned there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = c_path(path)?;
        // SAFETY: the path is a C string.
        let fd = checked(unsafe { libbpf_sys::bpf_obj_get(path.as_ptr()) })?;
        // SAFETY: the call returned a new descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Pins the link at `path`.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        pin(self.0.as_fd(), path)
    }

    /// Replaces the attached map atomically.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn update(&self, map: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: the options may be absent.
        checked(unsafe {
            libbpf_sys::bpf_link_update(self.0.as_raw_fd(), map.as_raw_fd(), ptr::null())
        })
        .map(drop)
    }

    /// Detaches the map. The link remains, without effect.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    pub fn detach(&self) -> io::Result<()> {
        // SAFETY: a plain system call on an open descriptor.
        checked(unsafe { libbpf_sys::bpf_link_detach(self.0.as_raw_fd()) }).map(drop)
    }

    /// Id of the attached map; `None` if the link was detached.
    ///
    /// # Errors
    /// Returns the error of the operating system, or an error if this is a link of another kind.
    pub fn map_id(&self) -> io::Result<Option<u32>> {
        // SAFETY: an all-zero `bpf_link_info` is valid.
        let mut info: libbpf_sys::bpf_link_info = unsafe { mem::zeroed() };
        let mut bytes = mem::size_of_val(&info) as u32;
        // SAFETY: `info` is as large as stated.
        checked(unsafe {
            libbpf_sys::bpf_link_get_info_by_fd(self.0.as_raw_fd(), &raw mut info, &raw mut bytes)
        })?;
        if info.type_ != libbpf_sys::BPF_LINK_TYPE_STRUCT_OPS {
            return Err(io::Error::other("a link, but not of a struct_ops map"));
        }
        // SAFETY: this member belongs to the type that was checked.
        let id = unsafe { info.__bindgen_anon_1.struct_ops.map_id };
        Ok((id != 0).then_some(id))
    }
}

/// Pins a map or a link at `path`, which keeps it alive.
///
/// # Errors
/// Returns the error of the operating system.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is a C string.
    checked(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), path.as_ptr()) }).map(drop)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}
