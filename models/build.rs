// SPDX-License-Identifier: Apache-2.0
//! Compiles every folder under `bpf/policies` (or `CACHEPILOT_POLICIES`) and `bpf/prefetch` twice:
//! natively into this crate, and to BPF for the kernel. No list of policies exists anywhere: the
//! folder is the list.

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

/// What a policy decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Eviction,
    Readahead,
}

impl Kind {
    /// Its folder below `bpf`, and the name of what is generated for it.
    fn folder(self) -> &'static str {
        match self {
            Self::Eviction => "policies",
            Self::Readahead => "prefetch",
        }
    }
}

/// A policy folder and what its manifest says.
struct Policy {
    dir: PathBuf,
    manifest: Manifest,
    kind: Kind,
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
    let policies = env::var("CACHEPILOT_POLICIES")
        .map_or_else(|_| bpf.join(Kind::Eviction.folder()), PathBuf::from);
    let prefetchers = bpf.join(Kind::Readahead.folder());
    for watched in [&bpf.join("include"), &policies, &prefetchers] {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    for variable in
        ["CACHEPILOT_POLICIES", "CACHEPILOT_SANITIZE", "CACHEPILOT_REQUIRE_BPF", "CC", "CLANG"]
    {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let mut found = read_policies(&policies, Kind::Eviction)?;
    found.extend(read_policies(&prefetchers, Kind::Readahead)?);
    compile::native(&found, &bpf.join("include"), &out)?;
    compile::bpf_objects(&found, &bpf.join("include"), &out)?;
    for kind in [Kind::Eviction, Kind::Readahead] {
        write_registry(&found, kind, &out)?;
    }
    Ok(())
}

/// Every folder that holds a `policy.toml`, by name.
fn read_policies(dir: &Path, kind: Kind) -> Result<Vec<Policy>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut dirs: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect();
    dirs.sort();
    let read = match kind {
        Kind::Eviction => check::read_manifest,
        Kind::Readahead => check::read_prefetch_manifest,
    };
    dirs.into_iter().map(|dir| Ok(Policy { manifest: read(&dir)?, dir, kind })).collect()
}

/// Generates the Rust table of compiled policies of a kind and their manifests.
fn write_registry(found: &[Policy], kind: Kind, out: &Path) -> Result<(), String> {
    let (file, prefix) = match kind {
        Kind::Eviction => ("registry.rs", "cx_policy"),
        Kind::Readahead => ("prefetch_registry.rs", "cx_prefetcher"),
    };
    let policies = || found.iter().filter(|p| p.kind == kind);
    let externs: String =
        policies().map(|p| format!("    static {prefix}_{}: Vtable;\n", p.manifest.name)).collect();
    let rows: String = policies()
        .map(|p| format!("    VtablePointer(&raw const {prefix}_{}),\n", p.manifest.name))
        .collect();
    let manifests: Vec<&Manifest> = policies().map(|p| &p.manifest).collect();
    let json = serde_json::to_string(&manifests).map_err(|e| e.to_string())?;
    let text = format!(
        "unsafe extern \"C\" {{\n{externs}}}\n\
         static VTABLES: [VtablePointer; {count}] = [\n{rows}];\n\
         static MANIFESTS_JSON: &str = {json:?};\n",
        count = manifests.len()
    );
    fs::write(out.join(file), text).map_err(|e| format!("{file}: {e}"))
}
