// SPDX-License-Identifier: Apache-2.0
//! The simulated page cache under policies that no folder holds, driven from C.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

/// Puts every second page on no list, keeps a ghost of each listed one, and writes down the task
/// and the time that the last removal saw. Proposes nothing.
const POLICY: &str = r#"
#include "cache_ext.bpf.h"
struct odd_state { u64 pages, ghosts, ghosts_left, added, task, time; };
POLICY_STATE(struct odd_state);
CACHE_EXT_HOOK(s32, odd_init, struct mem_cgroup *memcg)
{
	STATE->pages = bpf_cache_ext_list_create(memcg);
	STATE->ghosts = bpf_cache_ext_ghost_create(memcg, 100);
	STATE->ghosts_left = 100;
	return 0;
}
CACHE_EXT_HOOK(void, odd_folio_added, struct folio *folio)
{
	if (STATE->added++ % 2 == 0)
		bpf_cache_ext_list_add(STATE->pages, folio, true);
}
CACHE_EXT_HOOK(void, odd_evict_folios, struct cache_ext_eviction_ctx *request,
	       struct mem_cgroup *memcg)
{
}
CACHE_EXT_HOOK(void, odd_folio_removed, struct folio *folio, bool evicted)
{
	STATE->task = cache_ext_current_task();
	STATE->time = cache_ext_clock_ns();
	if (evicted)
		bpf_cache_ext_ghost_add(STATE->ghosts, folio, 0);
	bpf_cache_ext_ghost_trim(STATE->ghosts, STATE->ghosts_left);
}
CACHE_EXT_OPS(odd, .init = HOOK(odd_init), .evict_folios = HOOK(odd_evict_folios),
	      .folio_added = HOOK(odd_folio_added), .folio_removed = HOOK(odd_folio_removed));
"#;

const MANIFEST: &str = r#"
#define CACHE_EXT_POLICY odd
#define CACHE_EXT_POLICY_NAME "odd"
#define CACHE_EXT_FOLIO_STATE_BYTES 0
#define CACHE_EXT_GHOST_VALUE_BYTES 0
#define CACHE_EXT_TUNABLE_WORDS 0
struct policy_tunables { u32 none; };
"#;

/// Compiles the policy with a `main` of these statements, runs it and returns what it prints.
fn run(statements: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    let source = dir.path().join("program.c");
    let main = format!(
        "static u32 none[1];\nint main(void)\n{{\nstruct cx_sim *sim;\n{statements}\nreturn 0;\n}}\n"
    );
    fs::write(dir.path().join("policy_manifest.h"), MANIFEST).unwrap();
    fs::write(&source, format!("{POLICY}\n#include \"native/simulate.h\"\n{main}")).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../bpf/include");
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-std=gnu11", "-w", "-O1", "-I", include, "-I"]).arg(dir.path());
    let output = compiler.arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// With a capacity of one page: page 1 becomes a ghost, page 2 is on no list, and to bring page 1
/// back the kernel must choose a victim itself.
#[test]
fn a_page_that_comes_back_is_not_the_victim_that_makes_room_for_it() {
    let printed = run(r#"
	u64 keys[] = {1, 2, 1, 1};
	u8 hits[4];
	sim = cx_policy_odd.create(1, 1, 1, none);
	cx_policy_odd.run(sim, keys, NULL, NULL, 4, hits);
	printf("%d%d%d%d %u", hits[0], hits[1], hits[2], hits[3], (u32)sim->resident);
	cx_policy_odd.destroy(sim);
"#);
    assert_eq!(printed, "0001 1");
}

/// Truncation and resizing run hooks when the columns of the last run may be gone.
#[test]
fn hooks_between_runs_do_not_read_the_columns_of_the_last_run() {
    let printed = run(r#"
	u64 keys[] = {1, 2};
	u32 tasks[] = {7, 8, 9};
	u64 times[] = {70, 80, 90};
	sim = cx_policy_odd.create(8, 1, 1, none);
	cx_policy_odd.run(sim, keys, tasks, times, 2, NULL);
	cx_policy_odd.forget(sim, 1);
	printf("%u %u", (u32)((struct odd_state *)sim->state)->task,
	       (u32)((struct odd_state *)sim->state)->time);
	cx_policy_odd.destroy(sim);
"#);
    assert_eq!(printed, "0 80");
}

#[test]
fn a_ghost_may_be_forgotten_by_the_hook_that_leaves_it() {
    let printed = run(r#"
	u64 keys[] = {1, 2, 3, 4, 2, 5, 1};
	u8 hits[7];
	sim = cx_policy_odd.create(2, 1, 1, none);
	((struct odd_state *)sim->state)->ghosts_left = 0;
	cx_policy_odd.run(sim, keys, NULL, NULL, 7, hits);
	printf("%d %u %u", hits[4], (u32)sim->resident, (u32)sim->len[CX_LISTS]);
	cx_policy_odd.destroy(sim);
"#);
    assert_eq!(printed, "1 2 0");
}
