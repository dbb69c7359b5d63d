// SPDX-License-Identifier: Apache-2.0
//! The two compilations of a policy.

use crate::manifest::KERNEL_MODEL;
use crate::{Kind, Policy};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Compilers tried in this order when `CLANG` does not name one.
const CLANGS: [&str; 3] = ["clang-19", "clang-18", "clang"];

fn clang() -> Option<String> {
    let named = env::var("CLANG").ok();
    named.into_iter().chain(CLANGS.map(String::from)).find(|c| {
        Command::new(c).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// The folder of what is generated for a policy.
fn generated_path(policy: &Policy, out: &Path) -> PathBuf {
    out.join(policy.kind.folder()).join(&policy.manifest.name)
}

/// Writes `policy_manifest.h` there and returns that folder.
fn generated_dir(policy: &Policy, out: &Path) -> Result<PathBuf, String> {
    let dir = generated_path(policy, out);
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    write(&dir.join("policy_manifest.h"), &policy.manifest.header())?;
    Ok(dir)
}

fn code_of(policy: &Policy) -> Result<PathBuf, String> {
    let code = policy.dir.join("policy.bpf.c");
    code.canonicalize().map_err(|e| format!("{}: {e}", code.display()))
}

/// The unit that simulates a policy: its code, the loop, and before both what evicts in its place if
/// it does not. Generated headers go to `dir`.
fn simulator(policy: &Policy, policies: &[Policy], dir: &Path) -> Result<String, String> {
    let code = code_of(policy)?;
    let code = code.display();
    if policy.kind == Kind::Readahead {
        return Ok(format!("#include \"{code}\"\n#include \"native/prefetch_table.h\"\n"));
    }
    let mut text = String::new();
    if !policy.manifest.evicts() {
        let layer = policies.iter().find(|p| p.manifest.name == KERNEL_MODEL).ok_or_else(|| {
            format!(
                "policy {} has no evict_folios: {KERNEL_MODEL} is missing",
                policy.manifest.name
            )
        })?;
        write(&dir.join("layer_manifest.h"), &layer.manifest.layer_header())?;
        let below = code_of(layer)?;
        let below = below.display();
        text = format!("#define CX_LAYER_CODE \"{below}\"\n#include \"native/layer.h\"\n");
    }
    Ok(format!("{text}#include \"{code}\"\n#include \"native/simulate.h\"\n"))
}

/// Compiles each policy with the simulation loop into one static library.
pub fn native(policies: &[Policy], include: &Path, out: &Path) -> Result<(), String> {
    // One policy after the other: each has its own manifest header.
    for policy in policies {
        let name = &policy.manifest.name;
        let dir = generated_dir(policy, out)?;
        let source = dir.join("simulator.c");
        write(&source, &simulator(policy, policies, &dir)?)?;
        let mut build = cc::Build::new();
        if let (Err(_), Some(compiler)) = (env::var("CC"), clang()) {
            build.compiler(compiler);
        }
        build.file(&source).include(include).include(&dir).std("gnu11");
        build
            .flag("-ftls-model=initial-exec")
            .flag("-Wno-unused-function")
            .flag("-Wno-unused-parameter");
        if env::var("CACHEPILOT_SANITIZE").is_ok() {
            build.flag("-fsanitize=address,undefined").flag("-fno-sanitize-recover=all");
        }
        if env::var("PROFILE").is_ok_and(|p| p == "release") {
            build.opt_level(3);
        }
        build
            .try_compile(&format!("{}_{name}", policy.kind.folder()))
            .map_err(|e| first_error(&build, &source).unwrap_or(format!("policy {name}: {e}")))?;
    }
    Ok(())
}

/// The first error of the compiler about a source that it refused, in one line; its other messages
/// were printed as warnings already.
fn first_error(build: &cc::Build, source: &Path) -> Option<String> {
    let mut command = build.try_get_compiler().ok()?.to_command();
    let output = command.arg("-fsyntax-only").arg(source).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().find(|line| line.contains("error: ")).map(Into::into)
}

/// Compiles each policy to BPF, into one folder that a loader can be given: `NAME.bpf.o`, and its
/// manifest beside it as `NAME.toml`; readahead policies are in a folder below. Without clang this is
/// skipped, unless `CACHEPILOT_REQUIRE_BPF` is set: simulation from a source package needs only a C
/// compiler.
pub fn bpf_objects(policies: &[Policy], include: &Path, out: &Path) -> Result<(), String> {
    let Some(clang) = clang() else {
        if env::var("CACHEPILOT_REQUIRE_BPF").is_ok() {
            return Err(format!("none of {} is installed", CLANGS.join(", ")));
        }
        println!("cargo::warning=clang is not installed: policies are built for simulation only");
        return Ok(());
    };
    let objects = out.join("bpf");
    recreate(&objects)?;
    let readahead = objects.join(Kind::Readahead.folder());
    recreate(&readahead)?;
    for policy in policies.iter().filter(|p| !p.manifest.simulation_only) {
        let name = &policy.manifest.name;
        let folder = match policy.kind {
            Kind::Eviction => &objects,
            Kind::Readahead => &readahead,
        };
        let object = folder.join(format!("{name}.bpf.o"));
        let output = bpf_command(&clang, policy, include, out, &object)
            .output()
            .map_err(|e| format!("{clang}: {e}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("policy {name} for BPF:\n{text}"));
        }
        let manifest = folder.join(format!("{name}.toml"));
        fs::copy(policy.dir.join("policy.toml"), &manifest)
            .map_err(|e| format!("{}: {e}", manifest.display()))?;
    }
    println!("cargo::rustc-env=CACHEPILOT_BPF_DIR={}", objects.display());
    Ok(())
}

/// Makes an empty folder: objects of policies that are gone must not stay.
fn recreate(dir: &Path) -> Result<(), String> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(dir),
    }
    .map_err(|e| format!("{}: {e}", dir.display()))
}

fn bpf_command(clang: &str, policy: &Policy, include: &Path, out: &Path, object: &Path) -> Command {
    let mut command = Command::new(clang);
    command
        .arg(format!("@{}", include.join("clang.flags").display()))
        .args(["-c", "-o"])
        .arg(object)
        .arg("-I")
        .arg(include)
        .arg("-I")
        .arg(generated_path(policy, out))
        .arg(policy.dir.join("policy.bpf.c"));
    command
}
