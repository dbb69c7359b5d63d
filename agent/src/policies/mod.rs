// SPDX-License-Identifier: Apache-2.0
//! Compiled policies in a folder, and the policies that cgroups have.

mod attached;
mod change;
pub mod folder;
mod foreign;
pub mod kind;
mod loaded;
pub mod memory;
mod ops_layout;
pub mod overview;
pub mod pins;
pub mod settings;
mod sized;
pub mod stats;
pub mod support;
mod tunables;
pub mod verify;

pub use attached::{Attached, Policies};
pub use foreign::ObjectFile;
