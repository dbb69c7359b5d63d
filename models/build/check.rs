// SPDX-License-Identifier: Apache-2.0
//! What a policy folder must hold for the build to accept it. Shared with the tests, hence without
//! a dependency on the build script.

use crate::manifest::{HOOKS, Manifest, REQUIRED_HOOKS};
use std::fs;
use std::path::Path;

/// Reads `policy.toml` of a folder and compares it with the code beside it.
///
/// # Errors
/// One line that names the file and what is wrong with it.
pub fn read_manifest(dir: &Path) -> Result<Manifest, String> {
    let file = dir.join("policy.toml");
    let folder = dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let manifest =
        Manifest::parse(&read(&file)?, folder).map_err(|e| format!("{}: {e}", file.display()))?;
    let code = dir.join("policy.bpf.c");
    check_code(&read(&code)?, &manifest).map_err(|e| format!("{}: {e}", code.display()))?;
    if !dir.join("README.md").is_file() {
        return Err(format!("{}: README.md is missing", dir.display()));
    }
    Ok(manifest)
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// The manifest and the code must name the same hooks and tunables. (Sizes are compared by the
/// compiler, through the generated header.)
fn check_code(code: &str, manifest: &Manifest) -> Result<(), String> {
    for hook in HOOKS {
        let declared = manifest.hooks.iter().any(|h| h == hook);
        let used = code.contains(&format!(".{hook} = HOOK("));
        if declared != used {
            let (has, lacks) = if used { ("code", "policy.toml") } else { ("policy.toml", "code") };
            return Err(format!("hook {hook} is in the {has}, not in the {lacks}"));
        }
    }
    if let Some(hook) = REQUIRED_HOOKS.iter().find(|r| !manifest.hooks.iter().any(|h| h == *r)) {
        return Err(format!("hook {hook} is missing"));
    }
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
