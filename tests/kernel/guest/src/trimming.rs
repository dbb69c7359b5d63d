// SPDX-License-Identifier: Apache-2.0
//! The policy `trimming`: what it is told, and what it counted.

/// `struct trimming_state` of tests/kernel/policies/trimming.bpf.c.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Trimming {
    pub list: u64,
    pub ghost: u64,
    pub trim: u64,
    pub before: u64,
    pub after: u64,
}
