// SPDX-License-Identifier: Apache-2.0
//! What the programs keep of each tracked cgroup: what it lost, and its share of the ring.

use super::ring::map_of;
use super::sampler_layout::{self as layout, Losses};
use crate::error::{Error, Result};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object};

const MAP: &str = "shares";

/// Makes the entry of a cgroup, unless it has one. It comes before the cgroup is tracked: what finds
/// none is counted for all cgroups together alone.
///
/// # Errors
/// What the kernel says; too many cgroups among it.
pub fn open(object: &Object, cgroup_id: u64) -> Result<()> {
    let zeros = [0; layout::SHARE_BYTES];
    match map_of(object, MAP)?.update(&cgroup_id.to_ne_bytes(), &zeros, MapFlags::NO_EXIST) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::Sampler(format!("tracking cgroup {cgroup_id}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Removes the entry of a cgroup; nothing happens when it has none.
pub fn close(object: &Object, cgroup_id: u64) {
    if let Ok(map) = map_of(object, MAP) {
        // It can only be absent already.
        let _ = map.delete(&cgroup_id.to_ne_bytes());
    }
}

/// What a cgroup lost, and of the pages that the kernel left out of its sample those that were
/// looked at all the same; nothing of one that is not tracked.
///
/// # Errors
/// What the kernel says.
pub fn read(object: &Object, cgroup_id: u64) -> Result<(Losses, u64)> {
    let found = map_of(object, MAP)?.lookup(&cgroup_id.to_ne_bytes(), MapFlags::ANY);
    let bytes = found.map_err(|e| Error::Sampler(format!("losses of cgroup {cgroup_id}: {e}")))?;
    Ok(bytes.and_then(|bytes| layout::decode_share(&bytes)).unwrap_or_default())
}
