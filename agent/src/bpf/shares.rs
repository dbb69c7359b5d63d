// SPDX-License-Identifier: Apache-2.0
//! The cgroups that the programs track, and what they store for each: its losses, and its share of
//! the ring buffer.

use super::layout::{self, Losses};
use super::ring::map_of;
use crate::error::{Error, Result};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object};

const MAP: &str = "shares";
const TRACKED: &str = "cgroups";

/// Tracks a cgroup as part of the tenant in `slot`, with events for pages whose hash is below
/// `threshold`. For a tracked cgroup, changes the threshold.
///
/// # Errors
/// Returns the kernel's error, for example because of too many cgroups.
pub fn track(object: &Object, cgroup_id: u64, slot: u32, threshold: u64) -> Result<()> {
    open(object, cgroup_id)?;
    let value = layout::encode_entry(slot, threshold);
    map_of(object, TRACKED)?
        .update(&cgroup_id.to_ne_bytes(), &value, MapFlags::ANY)
        .map_err(|e| Error::Sampler(format!("tracking cgroup {cgroup_id}: {e}")))
}

/// Creates the entry of a cgroup, unless it has one. The entry must exist before the cgroup is
/// tracked: losses without an entry are counted only in the sum of all cgroups.
fn open(object: &Object, cgroup_id: u64) -> Result<()> {
    let zeros = [0; layout::SHARE_BYTES];
    match map_of(object, MAP)?.update(&cgroup_id.to_ne_bytes(), &zeros, MapFlags::NO_EXIST) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::Sampler(format!("tracking cgroup {cgroup_id}: {error}")))
        }
        _ => Ok(()),
    }
}

/// Stops tracking a cgroup and removes its entry. Does nothing if it is not tracked.
pub fn close(object: &Object, cgroup_id: u64) {
    for name in [TRACKED, MAP] {
        if let Ok(map) = map_of(object, name) {
            // The only possible failure is that the entry is absent already.
            let _ = map.delete(&cgroup_id.to_ne_bytes());
        }
    }
}

/// The losses of a cgroup, and the number of pages left out by the kernel's sampling that the
/// agent's program looked at; zeros for a cgroup that is not tracked.
///
/// # Errors
/// Returns the kernel's error.
pub fn read(object: &Object, cgroup_id: u64) -> Result<(Losses, u64)> {
    let found = map_of(object, MAP)?.lookup(&cgroup_id.to_ne_bytes(), MapFlags::ANY);
    let bytes = found.map_err(|e| Error::Sampler(format!("losses of cgroup {cgroup_id}: {e}")))?;
    Ok(bytes.and_then(|bytes| layout::decode_share(&bytes)).unwrap_or_default())
}
