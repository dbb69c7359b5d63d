// SPDX-License-Identifier: Apache-2.0
//! The build refuses a policy folder whose manifest contradicts its code.

#![allow(clippy::unwrap_used)]

#[path = "../build/check.rs"]
mod check;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachepilot_models::policy::manifest;
use tempfile::TempDir;

const MANIFEST: &str = r#"
name = "sample"
title = "Sample"
summary = "One list."
good_at = "tests"
bad_at = "the rest"
paper = "none"
production = false
folio_state_bytes = 1
hooks = ["init", "evict_folios", "folio_added"]
needs = ["folio_state"]

[[tunables]]
name = "limit"
type = "u32"
default = 5
min = 1
max = 9
unit = "pages"
description = "a limit"
"#;

const CODE: &str = r#"
#include "cache_ext.bpf.h"
struct sample_state { u64 pages; };
struct sample_folio { u8 seen; };
POLICY_STATE(struct sample_state);
POLICY_FOLIO_STATE(struct sample_folio);
CACHE_EXT_HOOK(s32, sample_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	return STATE->pages ? 0 : -ENOMEM;
}
CACHE_EXT_HOOK(void, sample_folio_added, struct folio *folio)
{
	bpf_cache_ext_list_add(STATE->pages, folio, true);
}
static s64 evict(struct folio *folio, void *data) { return CACHE_EXT_EVICT; }
CACHE_EXT_HOOK(void, sample_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
	struct cache_ext_iter_opts opts = {.max_scan = TUNABLE(limit)};
	bpf_cache_ext_list_iterate(STATE->pages, request, evict, NULL, &opts);
}
CACHE_EXT_OPS(sample, .init = HOOK(sample_init), .evict_folios = HOOK(sample_evict_folios),
	      .folio_added = HOOK(sample_folio_added));
"#;

/// Writes the folder `name` with `from` replaced by `to` wherever it occurs.
fn folder(name: &str, from: &str, to: &str) -> (TempDir, PathBuf) {
    let changes = MANIFEST.contains(from) || CODE.contains(from) || from.is_empty();
    assert!(changes, "{from:?} does not occur");
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join(name);
    fs::create_dir(&dir).unwrap();
    let edit = |text: &str| if from.is_empty() { text.into() } else { text.replace(from, to) };
    fs::write(dir.join("policy.toml"), edit(MANIFEST)).unwrap();
    fs::write(dir.join("policy.bpf.c"), edit(CODE)).unwrap();
    fs::write(dir.join("README.md"), "# sample\n").unwrap();
    (root, dir)
}

/// The message with which the folder is refused.
fn refusal(from: &str, to: &str) -> String {
    let (_root, dir) = folder("sample", from, to);
    let message = check::read_manifest(&dir).unwrap_err();
    assert!(!message.contains('\n'), "more than one line: {message}");
    assert!(message.contains("sample/policy."), "no file named: {message}");
    message
}

/// What the compiler says to the folder's code with its manifest, empty when it accepts both.
fn compile(dir: &Path) -> String {
    let manifest = check::read_manifest(dir).unwrap();
    fs::write(dir.join("policy_manifest.h"), manifest.header()).unwrap();
    let source = dir.join("simulator.c");
    fs::write(&source, "#include \"policy.bpf.c\"\n#include \"native/simulate.h\"\n").unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../bpf/include");
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    command.args(["-std=gnu11", "-w", "-fsyntax-only", "-I", include, "-I"]).arg(dir).arg(source);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn a_folder_that_agrees_with_itself_is_accepted() {
    let (_root, dir) = folder("sample", "", "");
    assert_eq!(check::read_manifest(&dir).unwrap().name, "sample");
    assert_eq!(compile(&dir), "");
}

#[test]
fn hooks_are_declared_and_implemented() {
    let missing = refusal(r#", "folio_added"]"#, "]");
    assert!(missing.ends_with("hook folio_added is in the code, not in the policy.toml"));
    let added = refusal(r#""folio_added"]"#, r#""folio_added", "exit"]"#);
    assert!(added.ends_with("hook exit is in the policy.toml, not in the code"), "{added}");
    let unknown = refusal(r#""folio_added"]"#, r#""folio_added", "folio_moved"]"#);
    assert!(unknown.contains("folio_moved"), "{unknown}");
}

/// A folder with these hooks alone.
fn folder_with(hooks: &[&str]) -> (TempDir, PathBuf) {
    let (root, dir) = folder("sample", "", "");
    let quoted: Vec<String> = hooks.iter().map(|hook| format!("{hook:?}")).collect();
    let manifest = MANIFEST
        .replace(r#"["init", "evict_folios", "folio_added"]"#, &format!("[{}]", quoted.join(", ")));
    let table: String =
        hooks.iter().map(|hook| format!(", .{hook} = HOOK(sample_{hook})")).collect();
    let (functions, _) = CODE.split_once("CACHE_EXT_OPS").unwrap();
    fs::write(dir.join("policy.toml"), manifest).unwrap();
    fs::write(dir.join("policy.bpf.c"), format!("{functions}CACHE_EXT_OPS(sample{table});\n"))
        .unwrap();
    (root, dir)
}

#[test]
fn a_policy_that_evicts_keeps_lists() {
    for (hooks, missing) in
        [(["init", "evict_folios"], "folio_added"), (["evict_folios", "folio_added"], "init")]
    {
        let (_root, dir) = folder_with(&hooks);
        let message = check::read_manifest(&dir).unwrap_err();
        let expected = format!("hook {missing} is missing: evict_folios needs it");
        assert!(message.ends_with(&expected), "{message}");
    }
}

#[test]
fn a_policy_that_does_not_evict_keeps_no_lists() {
    let (_root, dir) = folder_with(&["init", "folio_added"]);
    let message = check::read_manifest(&dir).unwrap_err();
    assert!(
        message.ends_with("bpf_cache_ext_list_ is for policies with evict_folios"),
        "{message}"
    );
}

#[test]
fn a_policy_without_a_hook_that_does_something_is_refused() {
    for hooks in [&[][..], &["init"]] {
        let (_root, dir) = folder_with(hooks);
        let message = check::read_manifest(&dir).unwrap_err();
        assert!(message.ends_with("no hook but init and exit"), "{message}");
    }
}

#[test]
fn a_tunable_that_the_code_never_reads_is_refused() {
    let message = refusal("TUNABLE(limit)", "5");
    assert!(message.ends_with("tunable limit of policy.toml is never read"), "{message}");
}

#[test]
fn values_outside_their_range_are_refused() {
    for (from, to, key) in [
        ("default = 5", "default = 10", "tunables.limit: default 10 is not in 1..=9"),
        ("folio_state_bytes = 1", "folio_state_bytes = 9", "folio_state_bytes: 9"),
        (r#"["folio_state"]"#, r#"["magic"]"#, "needs: \"magic\""),
        ("production = false", "produktion = false", "produktion"),
        ("name = \"sample\"", "name = \"other\"", "name: \"other\" differs from the folder"),
    ] {
        let message = refusal(from, to);
        assert!(message.contains(key), "{message}");
    }
}

#[test]
fn a_folder_without_a_readme_or_code_is_refused() {
    for file in ["README.md", "policy.bpf.c", "policy.toml"] {
        let (_root, dir) = folder("sample", "", "");
        fs::remove_file(dir.join(file)).unwrap();
        assert!(check::read_manifest(&dir).unwrap_err().contains(file));
    }
}

#[test]
fn a_state_size_that_contradicts_the_code_does_not_compile() {
    let (_root, dir) = folder("sample", "folio_state_bytes = 1", "folio_state_bytes = 2");
    assert!(compile(&dir).contains("folio_state_bytes in policy.toml differs from the code"));
}

#[test]
fn a_tunable_that_the_manifest_lacks_is_refused() {
    let message = refusal("TUNABLE(limit)", "TUNABLE(limit) + TUNABLE(other)");
    assert!(message.ends_with("tunable other is in the code, not in the policy.toml"), "{message}");
}

#[test]
fn a_variant_sets_tunables_that_there_are_to_values_of_their_own() {
    let with = |variants: &str| format!("description = \"a limit\"\n{variants}");
    let variant = |name: &str, set: &str| {
        with(&format!("[[variants]]\nname = \"{name}\"\ntunables = {{ {set} }}\n"))
    };
    let limit = "description = \"a limit\"\n";
    let (_root, dir) = folder("sample", limit, &variant("wide", "limit = 9"));
    let manifest = check::read_manifest(&dir).unwrap();
    assert_eq!(manifest.values_of("sample:wide"), Ok(vec![9]));
    assert_eq!(compile(&dir), "");
    for (name, set, said) in [
        ("wide", "limt = 9", "sample.limt: no such tunable (known: limit)"),
        ("wide", "limit = 10", "sample.limit: 10 is not in 1..=9"),
        ("wide", "limit = 5", "the same name or the same values as the defaults"),
        ("Wide", "limit = 9", "name is not of the form [a-z][a-z0-9_]*"),
    ] {
        let message = refusal(limit, &variant(name, set));
        let expected = format!("policy.toml: variants.{name}: {said}");
        assert!(message.ends_with(&expected), "{message}");
    }
}

const PREFETCH_CODE: &str = r#"
#include "prefetch.bpf.h"
CACHE_EXT_HOOK(s32, sample_decide_window, struct cache_ext_window_ctx *window)
{
	return window->nr_wanted > TUNABLE(limit);
}
CACHE_EXT_PREFETCH_OPS(sample, .decide_window = HOOK(sample_decide_window));
"#;

#[test]
fn the_folder_of_a_readahead_policy_is_compared_with_its_code() {
    let (_root, dir) = folder(
        "sample",
        "hooks = [\"init\", \"evict_folios\", \"folio_added\"]",
        "hooks = [\"decide_window\"]",
    );
    let code = dir.join("policy.bpf.c");
    fs::write(&code, PREFETCH_CODE).unwrap();
    assert_eq!(check::read_prefetch_manifest(&dir).unwrap().hooks, ["decide_window"]);
    assert!(check::read_manifest(&dir).unwrap_err().contains("decide_window"));
    for (from, to, said) in [
        ("TUNABLE(limit)", "TUNABLE(limt)", "tunable limt is in the code"),
        (".decide_window", ".page_used", "hook decide_window is in the policy.toml"),
    ] {
        fs::write(&code, PREFETCH_CODE.replace(from, to)).unwrap();
        let message = check::read_prefetch_manifest(&dir).unwrap_err();
        assert!(message.contains(said), "{message}");
    }
}
