// SPDX-License-Identifier: Apache-2.0
//! Generates the messages and the clients of `proto/` and `cri/`, without the protobuf compiler of the system,
//! and compiles the sampler to BPF.

#[path = "build/sampler.rs"]
mod sampler;

use std::error::Error;
use std::path::Path;

const ROOT: &str = "../proto";
const CONTRACT: &str = "../proto/cachepilot/v1/session.proto";
/// What is asked of the container runtime, which is nothing of ours.
const CRI_ROOT: &str = "cri";
const CRI: &str = "cri/runtime.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let descriptors = protox::compile([Path::new(CONTRACT)], [Path::new(ROOT)])?;
    // The server is that of the tests.
    tonic_prost_build::configure().build_server(true).compile_fds(descriptors)?;
    println!("cargo::rerun-if-changed={CRI_ROOT}");
    let descriptors = protox::compile([Path::new(CRI)], [Path::new(CRI_ROOT)])?;
    tonic_prost_build::configure().build_server(true).compile_fds(descriptors)?;
    sampler::compile()
}
