// SPDX-License-Identifier: Apache-2.0
//! Which cgroups the programs track, and what they keep of each: what it lost, and its share of the
//! ring.

use super::ring::map_of;
use super::sampler_layout::{self as layout, Losses};
use crate::error::{Error, Result};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object};

const MAP: &str = "shares";
const TRACKED: &str = "cgroups";

/// Tracks a cgroup as part of the tenant in `slot`, with events below `threshold`; changes the
/// threshold of one that is tracked.
///
/// # Errors
/// What the kernel says; too many cgroups among it.
pub fn track(object: &Object, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
    open(object, cgroup_id)?;
    let value = layout::encode_entry(slot, threshold);
    map_of(object, TRACKED)?
        .update(&cgroup_id.to_ne_bytes(), &value, MapFlags::ANY)
        .map_err(|e| Error::Sampler(format!("tracking cgroup {cgroup_id}: {e}")))
}

/// Makes the entry of a cgroup, unless it has one. It comes before the cgroup is tracked: what finds
/// none is counted for all cgroups together alone.
fn open(object: &Object, cgroup_id: u64) -> Result<()> {
    let zeros = [0; layout::SHARE_BYTES];
    match map_of(object, MAP)?.update(&cgroup_id.to_ne_bytes(), &zeros, MapFlags::NO_EXIST) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::Sampler(format!("tracking cgroup {cgroup_id}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Stops tracking a cgroup, and removes its entry; nothing happens when it is not tracked.
pub fn close(object: &Object, cgroup_id: u64) {
    for name in [TRACKED, MAP] {
        if let Ok(map) = map_of(object, name) {
            // It can only be absent already.
            let _ = map.delete(&cgroup_id.to_ne_bytes());
        }
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
