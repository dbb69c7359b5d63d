// SPDX-License-Identifier: Apache-2.0
//! Policies without `evict_folios` are simulated above the model of the kernel's LRU, which is the
//! same code that is simulated by itself.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use cachepilot_models::minisim::{Bank, BankConfig, Sampling};
use cachepilot_models::policy::{Instance, InstanceConfig, Requests, find, resolve};

const MODEL: &str = "kernel_lru";

/// Requests for pages of which some are far more popular than others.
fn skewed(count: u64, pages: u64) -> Vec<u64> {
    let mut state = 7_u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % pages
    };
    (0..count).map(|_| draw() * draw() / pages).collect()
}

fn instance(policy: &str, tunables: Vec<u32>) -> Instance {
    let config = InstanceConfig { capacity_pages: 300, batch: 32, seed: 1, tunables };
    Instance::new(find(policy).unwrap(), &config).unwrap()
}

fn hits(instance: &mut Instance, keys: &[u64]) -> Vec<u8> {
    let mut hits = vec![0; keys.len()];
    instance.run(Requests::of_keys(keys), Some(&mut hits)).unwrap();
    hits
}

#[test]
fn a_filter_that_keeps_nothing_out_is_the_model() {
    let keys = skewed(60_000, 3_000);
    let (mut alone, mut below) = (instance(MODEL, vec![]), instance("admission", vec![]));
    for part in keys.chunks(20_000) {
        assert_eq!(hits(&mut alone, part), hits(&mut below, part));
        for cache in [&mut alone, &mut below] {
            cache.forget(part[0]);
            cache.resize(200, 8).unwrap();
        }
        assert_eq!(alone.resident_keys(), below.resident_keys());
    }
    assert_eq!(alone.stats().evictions, below.stats().evictions);
    let mut heir = instance("admission", vec![]);
    heir.adopt(&alone.resident_keys()).unwrap();
    assert_eq!(heir.stats().adopted, alone.stats().resident);
}

#[test]
fn tunables_of_the_model_are_set_by_its_name() {
    let admission = resolve("admission").unwrap();
    let values =
        admission.values_with([("filtered_tasks.1", 9), ("kernel_lru.stats_interval", 50)]);
    let values = values.unwrap();
    assert_eq!((values.len(), values[1], &values[16..]), (18, 9, &[262_144, 50][..]));
    let keys = skewed(60_000, 3_000);
    let told = hits(&mut instance("admission", values), &keys);
    assert_eq!(told, hits(&mut instance(MODEL, vec![262_144, 50]), &keys));
    assert_ne!(told, hits(&mut instance(MODEL, vec![]), &keys), "it makes no difference");
    let refused = |key: &str, value| admission.values_with([(key, value)]).unwrap_err();
    assert_eq!(
        refused("kernel_lru.gigabyte_pages", 0),
        "kernel_lru.gigabyte_pages: 0 is not in 1..=262144"
    );
    assert!(refused("kernel_lru.nope", 0).starts_with("kernel_lru.nope: no such tunable"));
    let wrong = InstanceConfig { capacity_pages: 9, batch: 1, seed: 1, tunables: vec![0; 17] };
    let refused = Instance::new(find("admission").unwrap(), &wrong).err().unwrap().to_string();
    assert_eq!(refused, "tunables: 17 values given, 16 declared");
}

/// The unit of the model's target for the inactive list shrinks with the miniature below a policy as
/// it does for the model alone.
#[test]
fn miniatures_of_a_filter_are_scaled_as_those_of_the_model() {
    let policies = [MODEL, "admission"].map(|name| resolve(name).unwrap());
    let mut bank = Bank::new(BankConfig {
        policies: policies.into(),
        sizes_pages: vec![2_000],
        sampling: Sampling::Rate(0.3),
        half_life: None,
        seed: 1,
        threads: 1,
    })
    .unwrap();
    bank.access(Requests::of_keys(&skewed(200_000, 20_000))).unwrap();
    let curves = bank.curves().unwrap();
    assert_eq!(curves[0].miss_ratio, curves[1].miss_ratio);
}

/// It has all that the model has, of the same names where names are not global: state, state of
/// folios, a tunable. It counts what it is told.
const POLICY: &str = r#"
#include "cache_ext.bpf.h"
struct nosy_state { u64 added, accessed, removed, wrong; };
struct nosy_folio { u32 accesses; u32 mark; };
POLICY_STATE(struct nosy_state);
POLICY_FOLIO_STATE(struct nosy_folio);
static u64 statistics(void) { return TUNABLE(stats_interval); }
CACHE_EXT_HOOK(bool, nosy_admit_folio, u64 page_key) { return statistics() != 12; }
CACHE_EXT_HOOK(void, nosy_folio_added, struct folio *folio)
{
	STATE->wrong += FOLIO_STATE(folio)->accesses || FOLIO_STATE(folio)->mark;
	FOLIO_STATE(folio)->mark = 0xffffffff;
	STATE->added++;
}
CACHE_EXT_HOOK(void, nosy_folio_accessed, struct folio *folio, bool first)
{
	STATE->wrong += first != !FOLIO_STATE(folio)->accesses++;
	STATE->accessed++;
}
CACHE_EXT_HOOK(void, nosy_folio_removed, struct folio *folio, bool evicted)
{
	STATE->wrong += FOLIO_STATE(folio)->mark != 0xffffffff || !FOLIO_STATE(folio)->accesses;
	STATE->removed++;
}
CACHE_EXT_OPS(nosy, .folio_added = HOOK(nosy_folio_added), .admit_folio = HOOK(nosy_admit_folio),
	      .folio_accessed = HOOK(nosy_folio_accessed), .folio_removed = HOOK(nosy_folio_removed));
"#;

const MANIFEST: &str = r#"
#define CACHE_EXT_POLICY nosy
#define CACHE_EXT_POLICY_NAME "nosy"
#define CACHE_EXT_FOLIO_STATE_BYTES 8
#define CACHE_EXT_GHOST_VALUE_BYTES 0
#define CACHE_EXT_TUNABLE_WORDS 1
struct policy_tunables { u32 stats_interval; };
"#;

const MAIN: &str = r#"
int main(void)
{
	u32 tunables[] = {11, 262144, 0}, refusing[] = {12, 262144, 0};
	struct cx_sim *sim = cx_policy_nosy.create(300, 18, 1, tunables);
	struct nosy_state *state = (void *)((u8 *)sim + CX_SIM_BYTES - sizeof(*state));
	static u64 keys[60000];
	u64 next = 7;

	for (u32 i = 0; i < 60000; i++) {
		u64 draws[2];
		for (int j = 0; j < 2; j++) {
			next = next * 6364136223846793005 + 1442695040888963407;
			draws[j] = (next >> 33) % 3000;
		}
		keys[i] = draws[0] * draws[1] / 3000;
	}
	cx_policy_nosy.run(sim, keys, NULL, NULL, 60000, NULL);
	printf("%d %d %d ", state->added == sim->stats.misses, state->accessed == 60000,
	       state->removed == sim->stats.evictions);
	printf("%d %s ", (int)state->wrong, cx_policy_nosy.check(sim) ?: "sound");
	printf("%d ", (int)sim->stats.misses);
	cx_policy_nosy.set_tunables(sim, refusing);
	keys[0] = 1 << 20;
	cx_policy_nosy.run(sim, keys, NULL, NULL, 1, NULL);
	printf("%d", (int)sim->stats.refused);
	cx_policy_nosy.destroy(sim);
	return 0;
}
"#;

#[test]
fn the_state_of_a_policy_is_separate_from_that_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let model = find(MODEL).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bpf");
    let code = root.join("policies").join(MODEL).join("policy.bpf.c");
    let layer = format!("#define CX_LAYER_CODE {code:?}\n#include \"native/layer.h\"\n");
    let unit = format!("{layer}{POLICY}\n#include \"native/simulate.h\"\n{MAIN}");
    fs::write(place("policy_manifest.h"), MANIFEST).unwrap();
    fs::write(place("layer_manifest.h"), model.manifest.layer_header()).unwrap();
    fs::write(place("program.c"), unit).unwrap();
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-std=gnu11", "-w", "-O1", "-I"]).arg(root.join("include"));
    compiler.arg("-I").arg(dir.path()).arg(place("program.c")).arg("-o").arg(place("program"));
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(place("program")).output().unwrap();
    let mut alone = instance(MODEL, vec![]);
    let keys = skewed(60_000, 3_000);
    hits(&mut alone, &keys);
    let expected = format!("1 1 1 0 sound {} 1", alone.stats().misses);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
