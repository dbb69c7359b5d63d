// SPDX-License-Identifier: Apache-2.0
//! What watching needs of the kernel, through the programs and maps of `watch.bpf.c`.

use crate::bpf::layout::{self as layout, Counts, Losses};
use crate::bpf::ring::map_of;
use crate::bpf::sampler::attach_one;
use crate::bpf::sampler::parts::Target;
use crate::bpf::shares;
use crate::error::{Error, Result};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramInput};
use std::ffi::OsStr;
use std::io;

/// The program that looks at the part of large reads that the kernel leaves out.
pub(super) const REST: &str = "read_rest";

/// The kernel's counts of a cgroup, and the number of pages left out of its sample; `None` if the
/// kernel does not watch the cgroup.
pub(super) type Read = Result<Option<(Counts, u64)>>;

/// A kernel that watches cgroups, or a substitute for tests.
pub(super) trait Kernel {
    /// An attached program; it is detached when this value is dropped.
    type Attached;

    /// Requests the watch of a cgroup. Returns whether the kernel watches it now; it does not if
    /// the cgroup is gone, or has no memory controller of its own, so that its accesses count for
    /// the cgroup above.
    fn watch(&self, cgroup_id: u64, threshold: u64) -> Result<bool>;
    /// Ends the watch of a cgroup. If this fails, the next agent ends it.
    fn unwatch(&self, cgroup_id: u64);
    /// Reads the kernel's counts of up to [`layout::READ_AT_ONCE`] cgroups, in their order.
    fn read(&self, cgroup_ids: &[u64]) -> Result<Vec<Read>>;
    /// As [`shares::track`].
    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()>;
    /// As [`shares::close`].
    fn close(&self, cgroup_id: u64);
    /// As [`shares::read`].
    fn share(&self, cgroup_id: u64) -> Result<(Losses, u64)>;
    /// Attaches the program that looks at the end of large reads.
    fn attach_rest(&self) -> std::result::Result<Self::Attached, String>;
}

impl Kernel for Object {
    type Attached = Link;

    fn watch(&self, cgroup_id: u64, threshold: u64) -> Result<bool> {
        match call(self, "watch", cgroup_id, threshold)? {
            Ok(()) => Ok(true),
            Err(error) if is_without(&error) => Ok(false),
            Err(error) => Err(Error::Sampler(format!("tracking cgroup {cgroup_id}: {error}"))),
        }
    }

    fn unwatch(&self, cgroup_id: u64) {
        let _ = call(self, "unwatch", cgroup_id, 0);
    }

    fn read(&self, cgroup_ids: &[u64]) -> Result<Vec<Read>> {
        let failed = |e: &dyn std::fmt::Display| Error::Sampler(format!("counts: {e}"));
        let (zero, request) = (0_u32.to_ne_bytes(), layout::encode_counts_request(cgroup_ids));
        let asked = map_of(self, "asked")?.update(&zero, &request, MapFlags::ANY);
        asked.map_err(|e| failed(&e))?;
        call(self, "read_counts", 0, 0)?.map_err(|e| failed(&e))?;
        let answer = map_of(self, "answer")?.lookup(&zero, MapFlags::ANY);
        let answer = answer.map_err(|e| failed(&e))?.unwrap_or_default();
        let told = |(place, id): (usize, &u64)| match layout::decode_counts_answer(&answer, place) {
            Some(Ok(counts)) => Ok(Some(counts)),
            Some(Err(number)) if is_without(&io::Error::from_raw_os_error(-number)) => Ok(None),
            Some(Err(number)) => {
                let error = io::Error::from_raw_os_error(-number);
                Err(Error::Sampler(format!("counts of cgroup {id}: {error}")))
            }
            None => Err(Error::Sampler(format!("counts of cgroup {id}: too short an answer"))),
        };
        Ok(cgroup_ids.iter().enumerate().map(told).collect())
    }

    fn track(&self, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
        shares::track(self, cgroup_id, slot, threshold)
    }

    fn close(&self, cgroup_id: u64) {
        shares::close(self, cgroup_id);
    }

    fn share(&self, cgroup_id: u64) -> Result<(Losses, u64)> {
        shares::read(self, cgroup_id)
    }

    fn attach_rest(&self) -> std::result::Result<Link, String> {
        attach_one(self, REST, Target::Function("__cache_ext_read_end"))
    }
}

/// Whether an error means that there is no such cgroup, or none with a memory controller.
fn is_without(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP))
}

/// Runs a program of the object. The inner result is that of the kernel's function.
fn call(object: &Object, name: &str, cgroup_id: u64, threshold: u64) -> Result<io::Result<()>> {
    let program = object.progs_mut().find(|program| program.name() == OsStr::new(name));
    let program = program.ok_or_else(|| Error::Sampler(format!("no program {name}")))?;
    let mut request = layout::encode_request(cgroup_id, threshold);
    let input = ProgramInput { context_in: Some(&mut request), ..Default::default() };
    let output = program.test_run(input).map_err(|e| Error::Sampler(format!("{name}: {e}")))?;
    Ok(crate::bpf::checked(output.return_value.cast_signed()).map(|_| ()))
}
