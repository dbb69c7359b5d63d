// SPDX-License-Identifier: Apache-2.0
//! Compiles `bpf/sampler`. The object files become part of the agent: unlike policies they are
//! not chosen, and layouts on both sides must agree. Without clang they are empty, which it tells
//! when it is asked to sample, unless `CACHEPILOT_REQUIRE_BPF` is set.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const CLANGS: [&str; 3] = ["clang-19", "clang-18", "clang"];
const FOLDER: &str = "../bpf/sampler";
const OBJECTS: [&str; 2] = ["sampler", "watch"];
const FLAGS: &str = "../bpf/include/clang.flags";

fn clang() -> Option<String> {
    let named = env::var("CLANG").ok();
    named.into_iter().chain(CLANGS.map(String::from)).find(|c| {
        Command::new(c).arg("--version").output().is_ok_and(|output| output.status.success())
    })
}

/// Writes `sampler.bpf.o` and `watch.bpf.o` into the build's output folder.
pub fn compile() -> Result<(), Box<dyn Error>> {
    for watched in [FOLDER, FLAGS] {
        println!("cargo::rerun-if-changed={watched}");
    }
    for variable in ["CLANG", "CACHEPILOT_REQUIRE_BPF"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let clang = clang();
    if clang.is_none() && env::var("CACHEPILOT_REQUIRE_BPF").is_ok() {
        return Err(format!("none of {} is installed", CLANGS.join(", ")).into());
    }
    if clang.is_none() {
        println!("cargo::warning=clang is not installed: the agent is built without its sampler");
    }
    OBJECTS.iter().try_for_each(|name| compile_one(clang.as_deref(), name))
}

fn compile_one(clang: Option<&str>, name: &str) -> Result<(), Box<dyn Error>> {
    let object = PathBuf::from(env::var("OUT_DIR")?).join(format!("{name}.bpf.o"));
    let Some(clang) = clang else { return Ok(fs::write(object, [])?) };
    let source = Path::new(FOLDER).join(format!("{name}.bpf.c"));
    let mut command = Command::new(clang);
    command.arg(format!("@{FLAGS}")).args(["-c", "-o"]).arg(object).arg(source);
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{name}:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(())
}
