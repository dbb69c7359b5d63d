// SPDX-License-Identifier: Apache-2.0
//! Compiles the policies of the tests to BPF. Where they are is compiled into the program: the
//! virtual machine sees the host's tree at the same paths.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

const COMPILERS: [&str; 2] = ["clang-19", "clang"];

fn main() {
    if let Err(message) = build() {
        eprintln!("error: {message}");
        process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|e| format!("{name}: {e}"));
    let policies = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../policies");
    let include = policies.join("../../../bpf/include");
    let out = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", policies.display());
    println!("cargo::rerun-if-changed={}", include.display());
    let compiler = env::var("CLANG").ok().or_else(compiler).ok_or("clang is not installed")?;
    let flags = include.join("clang.flags");
    let compat = include.join("compat");
    for (folder, headers) in [
        (policies.clone(), vec![include.clone(), policies.clone()]),
        (policies.join("unbounded"), vec![include, policies.clone()]),
        (policies.join("compat"), vec![compat]),
    ] {
        compile_all(&compiler, &flags, &folder, &headers, &out)?;
    }
    println!("cargo::rustc-env=TEST_POLICIES={}", out.display());
    Ok(())
}

fn compiler() -> Option<String> {
    let works = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    COMPILERS.iter().find(works).map(|name| (*name).to_string())
}

/// Compiles every policy of a folder.
fn compile_all(
    compiler: &str,
    flags: &Path,
    folder: &Path,
    headers: &[PathBuf],
    out: &Path,
) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(policy) = name.strip_suffix(".bpf.c") {
            compile(compiler, flags, &path, headers, &out.join(format!("{policy}.bpf.o")))?;
        }
    }
    Ok(())
}

fn compile(
    compiler: &str,
    flags: &Path,
    source: &Path,
    include: &[PathBuf],
    object: &Path,
) -> Result<(), String> {
    let mut command = Command::new(compiler);
    command.arg(format!("@{}", flags.display())).args(["-c", "-o"]).arg(object).arg(source);
    for folder in include {
        command.arg("-I").arg(folder);
    }
    let output = command.output().map_err(|e| format!("{compiler}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr)))
}
