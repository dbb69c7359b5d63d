// SPDX-License-Identifier: Apache-2.0
//! Loads the sampler: all of its parts, or those that the running kernel accepts.

use super::parts::Programs;
use crate::bpf::layout::COUNTS_PART;
use crate::bpf::messages::{self, Recording};
use crate::error::{Error, Result};
use libbpf_rs::{Object, ObjectBuilder, OpenObject};

/// The most cgroups that can be tracked.
pub const MAX_CGROUPS: u32 = 4096;

/// The sizes of the sampler's maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerSizes {
    /// The most tenants whose counts are maintained.
    pub max_tenants: u32,
    /// Bytes of events between two reads, a power of two.
    pub ring_bytes: u32,
}

/// Loads the programs that were `chosen`, by part. If a part lacks a field of the kernel, or the
/// verifier refuses it, only that part is left out; the second value has the reasons, by part.
///
/// # Errors
/// Returns [`Error::Sampler`] with the reasons if no part can be loaded.
pub fn load(
    object_file: &[u8],
    sizes: SamplerSizes,
    chosen: &[Programs],
) -> Result<(Object, Vec<Option<String>>)> {
    let recording = Recording::start();
    let attempt = |parts: &[Programs]| {
        recording.restart();
        try_load(object_file, sizes, parts).map_err(|source| {
            let said = messages::decisive(&recording.text(), 1).pop();
            said.unwrap_or_else(|| source.to_string())
        })
    };
    load_what_loads(attempt, chosen).map_err(Error::Sampler)
}

/// Tries all parts together, and each part alone if that fails, since the kernel's message about
/// many programs concerns only the first one that it refuses.
fn load_what_loads<T>(
    attempt: impl Fn(&[Programs]) -> std::result::Result<T, String>,
    chosen: &[Programs],
) -> std::result::Result<(T, Vec<Option<String>>), String> {
    let together = match attempt(chosen) {
        Ok(loaded) => return Ok((loaded, vec![None; chosen.len()])),
        Err(reason) => reason,
    };
    let alone = |programs: &Programs| match programs.is_empty() {
        true => None,
        false => attempt(std::slice::from_ref(programs)).err(),
    };
    let refused: Vec<Option<String>> = chosen.iter().map(alone).collect();
    let accepted = chosen.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
    let accepted: Vec<Programs> = accepted.map(|(&programs, _)| programs).collect();
    if accepted.iter().all(|programs| programs.is_empty()) {
        return Err(together);
    }
    Ok((attempt(&accepted)?, refused))
}

fn try_load(
    object_file: &[u8],
    sizes: SamplerSizes,
    parts: &[Programs],
) -> libbpf_rs::Result<Object> {
    let mut open = ObjectBuilder::default().open_memory(object_file)?;
    set_sizes(&mut open, sizes)?;
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let wanted = parts.iter().any(|part| part.iter().any(|&(program, _)| program == name));
        program.set_autoload(wanted);
    }
    open.load()
}

/// Sets the sizes of those maps that the object has.
///
/// # Errors
/// Returns the error of libbpf.
pub fn set_sizes(open: &mut OpenObject, sizes: SamplerSizes) -> libbpf_rs::Result<()> {
    let wanted = [
        ("cgroups", MAX_CGROUPS),
        ("shares", MAX_CGROUPS),
        ("counts", sizes.max_tenants.div_ceil(COUNTS_PART)),
        ("events", sizes.ring_bytes),
    ];
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some((_, size)) = wanted.iter().find(|(wanted, _)| *wanted == name) {
            map.set_max_entries(*size)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::sampler::parts::Target;
    use std::cell::RefCell;

    const READS: Programs = &[("read", Target::Function("read"))];
    const WRITES: Programs = &[("write", Target::Function("write"))];
    const NONE: Programs = &[];

    /// A kernel that refuses some programs and reports the first of them. The result is otherwise
    /// what was loaded.
    fn kernel(
        refuses: &'static [&str],
    ) -> impl Fn(&[Programs]) -> std::result::Result<Vec<&'static str>, String> {
        move |parts| {
            let names = || parts.iter().flat_map(|part| part.iter()).map(|program| program.0);
            match names().find(|name| refuses.contains(name)) {
                Some(name) => Err(format!("{name}: no")),
                None => Ok(names().collect()),
            }
        }
    }

    #[test]
    fn only_parts_that_the_kernel_lacks_are_left_out() {
        let chosen = [READS, NONE, WRITES];
        let all = load_what_loads(kernel(&[]), &chosen);
        assert_eq!(all, Ok((vec!["read", "write"], vec![None; 3])));
        let some = load_what_loads(kernel(&["read"]), &chosen);
        assert_eq!(some, Ok((vec!["write"], vec![Some("read: no".into()), None, None])));
        let none = load_what_loads(kernel(&["write", "read"]), &chosen);
        assert_eq!(none, Err("read: no".into()));
    }

    #[test]
    fn one_attempt_is_enough_if_everything_loads() {
        let attempts = RefCell::new(0);
        let attempt = |parts: &[Programs]| {
            *attempts.borrow_mut() += 1;
            kernel(&[])(parts)
        };
        assert!(load_what_loads(attempt, &[READS, WRITES]).is_ok());
        assert_eq!(attempts.into_inner(), 1);
    }
}
