// SPDX-License-Identifier: Apache-2.0
//! Compiles every folder under `bpf/policies` (or `CACHEPILOT_POLICIES`) twice: natively into this
//! crate, and to BPF for the kernel. No list of policies exists anywhere: the folder is the list.

#[path = "build/check.rs"]
mod check;
#[path = "build/compile.rs"]
mod compile;
#[path = "src/policy/manifest.rs"]
#[allow(dead_code)]
mod manifest;
#[path = "src/policy/tunables.rs"]
#[allow(dead_code)]
mod tunables;
#[path = "src/policy/variants.rs"]
#[allow(dead_code)]
mod variants;

use manifest::Manifest;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// A policy folder and what its manifest says.
struct Policy {
    dir: PathBuf,
    manifest: Manifest,
}

fn main() {
    if let Err(message) = build() {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?).join("..");
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|e| e.to_string())?);
    let bpf = root.join("bpf");
    let policies =
        env::var("CACHEPILOT_POLICIES").map_or_else(|_| bpf.join("policies"), PathBuf::from);
    for watched in [&bpf.join("include"), &policies] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    for variable in
        ["CACHEPILOT_POLICIES", "CACHEPILOT_SANITIZE", "CACHEPILOT_REQUIRE_BPF", "CC", "CLANG"]
    {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let found = read_policies(&policies)?;
    compile::native(&found, &bpf.join("include"), &out)?;
    compile::bpf_objects(&found, &bpf.join("include"), &out)?;
    write_registry(&found, &out)
}

/// Every folder that holds a `policy.toml`, by name.
fn read_policies(dir: &Path) -> Result<Vec<Policy>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut dirs: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    dirs.sort();
    dirs.into_iter().map(|dir| Ok(Policy { manifest: check::read_manifest(&dir)?, dir })).collect()
}

/// Generates the Rust table of compiled policies and their manifests.
fn write_registry(policies: &[Policy], out: &Path) -> Result<(), String> {
    let externs: String = policies
        .iter()
        .map(|p| format!("    static cx_policy_{}: Vtable;\n", p.manifest.name))
        .collect();
    let rows: String = policies
        .iter()
        .map(|p| format!("    VtablePointer(&raw const cx_policy_{}),\n", p.manifest.name))
        .collect();
    let manifests: Vec<&Manifest> = policies.iter().map(|p| &p.manifest).collect();
    let json = serde_json::to_string(&manifests).map_err(|e| e.to_string())?;
    let text = format!(
        "unsafe extern \"C\" {{\n{externs}}}\n\
         static VTABLES: [VtablePointer; {count}] = [\n{rows}];\n\
         static MANIFESTS_JSON: &str = {json:?};\n",
        count = policies.len()
    );
    fs::write(out.join("registry.rs"), text).map_err(|e| format!("registry.rs: {e}"))
}
