// SPDX-License-Identifier: Apache-2.0
//! What a policy folder must hold for the build to accept it. Shared with the tests, hence without
//! a dependency on the build script.

use crate::manifest::{HOOKS, LIST_HOOKS, Manifest, PREFETCH_HOOKS};
use std::fs;
use std::path::Path;

/// Functions, by the beginnings of their names, that order pages for eviction.
const FOR_EVICTION: [&str; 4] = [
    "bpf_cache_ext_list_",
    "bpf_cache_ext_folio_list",
    "bpf_cache_ext_ghost_",
    "bpf_cache_ext_propose",
];

/// Hooks that decide nothing and are told of no page.
const FRAME_HOOKS: [&str; 2] = ["init", "exit"];

/// Reads `policy.toml` of a folder and compares it with the code beside it.
///
/// # Errors
/// One line that names the file and what is wrong with it.
pub fn read_manifest(dir: &Path) -> Result<Manifest, String> {
    let (manifest, code) = read_folder(dir, Manifest::parse)?;
    let checked = check_hooks(&code, &manifest, &HOOKS)
        .and_then(|()| check_eviction(&code, &manifest))
        .and_then(|()| check_tunables(&code, &manifest));
    finish(dir, manifest, checked)
}

/// The same for a readahead policy.
///
/// # Errors
/// As [`read_manifest`].
pub fn read_prefetch_manifest(dir: &Path) -> Result<Manifest, String> {
    let (manifest, code) = read_folder(dir, Manifest::parse_prefetch)?;
    let checked = check_hooks(&code, &manifest, &PREFETCH_HOOKS)
        .and_then(|()| check_tunables(&code, &manifest));
    finish(dir, manifest, checked)
}

type Parse = fn(&str, &str) -> Result<Manifest, String>;

fn read_folder(dir: &Path, parse: Parse) -> Result<(Manifest, String), String> {
    let file = dir.join("policy.toml");
    let folder = dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let manifest = parse(&read(&file)?, folder).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok((manifest, read(&dir.join("policy.bpf.c"))?))
}

fn finish(dir: &Path, manifest: Manifest, checked: Result<(), String>) -> Result<Manifest, String> {
    checked.map_err(|e| format!("{}: {e}", dir.join("policy.bpf.c").display()))?;
    if !dir.join("README.md").is_file() {
        return Err(format!("{}: README.md is missing", dir.display()));
    }
    Ok(manifest)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// The manifest and the code must name the same hooks. (Sizes are compared by the compiler, through
/// the generated header.)
fn check_hooks(code: &str, manifest: &Manifest, hooks: &[&str]) -> Result<(), String> {
    for hook in hooks {
        let declared = manifest.hooks.iter().any(|h| h == hook);
        let used = code.contains(&format!(".{hook} = HOOK("));
        if declared != used {
            let (has, lacks) = if used { ("code", "policy.toml") } else { ("policy.toml", "code") };
            return Err(format!("hook {hook} is in the {has}, not in the {lacks}"));
        }
    }
    Ok(())
}

/// So must they the same tunables.
fn check_tunables(code: &str, manifest: &Manifest) -> Result<(), String> {
    let declared = |name: &str| manifest.tunables.iter().any(|t| t.name == name);
    let mut used = code.split("TUNABLE(").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    });
    if let Some(name) = used.find(|name| !declared(name)) {
        return Err(format!("tunable {name} is in the code, not in the policy.toml"));
    }
    match manifest.tunables.iter().find(|t| !code.contains(&format!("TUNABLE({})", t.name))) {
        Some(t) => Err(format!("tunable {} of policy.toml is never read", t.name)),
        None => Ok(()),
    }
}

/// A policy that evicts keeps lists. One that does not keeps none: in simulation, pages stand on the
/// lists of what evicts in its place.
fn check_eviction(code: &str, manifest: &Manifest) -> Result<(), String> {
    let has = |hook: &str| manifest.hooks.iter().any(|h| h == hook);
    if manifest.evicts() {
        return match LIST_HOOKS.iter().find(|hook| !has(hook)) {
            Some(hook) => Err(format!("hook {hook} is missing: evict_folios needs it")),
            None => Ok(()),
        };
    }
    if manifest.hooks.iter().all(|hook| FRAME_HOOKS.contains(&hook.as_str())) {
        return Err(format!("no hook but {}", FRAME_HOOKS.join(" and ")));
    }
    match FOR_EVICTION.iter().find(|function| code.contains(**function)) {
        Some(function) => Err(format!("{function} is for policies with evict_folios")),
        None => Ok(()),
    }
}
