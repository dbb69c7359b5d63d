// SPDX-License-Identifier: Apache-2.0
//! Trace formats of other simulators and of published traces.

pub(super) mod arc;
pub(super) mod extent;
pub(super) mod lcs;
mod lines;
pub(super) mod lirs;
pub(super) mod msr;
pub(super) mod vscsi;
