// SPDX-License-Identifier: Apache-2.0
//! Loads each policy into the running kernel's verifier and reports the result. Nothing is
//! attached.

use super::folder::PolicyFile;
use super::loaded::LoadedPolicy;
use super::memory;
use crate::bpf::messages;
use crate::bpf::program;
use crate::error::{Error, Result};
use serde::Serialize;

/// Lines of the verifier's log that are shown for a refused policy.
const LOG_LINES: usize = 12;
const INSTRUCTION_BYTES: u32 = 8;

/// The cost of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookCost {
    /// Name of the hook.
    pub hook: String,
    /// Instructions that the verifier walked through, along all paths.
    pub verified_instructions: u32,
    /// Instructions after the verifier's rewriting.
    pub instructions: u32,
    /// Bytes of machine code; 0 if the kernel interprets.
    pub jited_bytes: u32,
    /// Stack of the deepest chain of calls; `None` if the verifier did not report it.
    pub stack_bytes: Option<u32>,
}

/// The verifier's result for a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Name of the policy.
    pub policy: String,
    /// Kernel memory that each attachment takes, as the agent counts it for a large cgroup.
    pub memory_bytes: u64,
    /// Its hooks in the order of its manifest; empty if it was refused.
    pub hooks: Vec<HookCost>,
    /// The last lines of the verifier's log if it was refused.
    pub refused: Vec<String>,
}

/// Loads a policy, reads what its programs cost, and unloads it.
///
/// # Errors
/// Returns an error if the kernel does not describe a program that it accepted.
pub fn verify(file: &PolicyFile) -> Result<Verdict> {
    let (policy, memory_bytes) = (file.manifest.name.clone(), memory::of_file(file, u64::MAX)?);
    let (loaded, log) = match LoadedPolicy::load_verbose(file, LOG_LINES) {
        Ok(loaded) => loaded,
        Err(refused) => return Ok(Verdict { policy, memory_bytes, hooks: Vec::new(), refused }),
    };
    let stacks = messages::stack_bytes(&log);
    let mut hooks = Vec::new();
    for (hook, program) in loaded.programs() {
        let info = program::info(program).map_err(Error::kernel(format!("{policy}_{hook}")))?;
        hooks.push(HookCost {
            verified_instructions: info.verified_insns,
            instructions: info.xlated_prog_len / INSTRUCTION_BYTES,
            jited_bytes: info.jited_prog_len,
            stack_bytes: stacks.get(&format!("{policy}_{hook}")).copied(),
            hook,
        });
    }
    let order = |cost: &HookCost| file.manifest.hooks.iter().position(|h| *h == cost.hook);
    hooks.sort_by_key(order);
    Ok(Verdict { policy, memory_bytes, hooks, refused: Vec::new() })
}
