// SPDX-License-Identifier: Apache-2.0
//! The compiled BPF objects hold what the kernel's loader and verifier will ask of them.

#![allow(clippy::unwrap_used)]

mod bpf_code;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bpf_code::Program;
use cachepilot_models::policy::{Manifest, policies};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SectionKind,
};

type Elf<'a> = ElfFile64<'a, Endianness>;

/// The verifier's `MAX_BPF_STACK`.
const MAX_STACK_BYTES: u64 = 512;
/// `ktime_get_ns`, `get_prandom_u32` and `get_current_pid_tgid`, with the need each stands for.
const HELPERS: [(i32, &str); 3] = [(5, "clock"), (7, "random"), (14, "tasks")];
/// Kernel functions that stand for a need.
const NEEDS: [(&str, &str); 3] = [
    ("bpf_cache_ext_ghost_create", "ghosts"),
    ("bpf_cache_ext_folio_state", "folio_state"),
    ("bpf_cache_ext_page_key", "page_keys"),
];

/// Calls `check` with every policy that has an object; none when clang was absent at build time.
fn each_object(check: impl Fn(&Manifest, &Elf<'_>)) {
    let Some(dir) = option_env!("CACHEPILOT_BPF_DIR") else {
        eprintln!("skipped: the policies were built without clang");
        return;
    };
    let manifests = policies().iter().map(|p| &p.manifest);
    for manifest in manifests.filter(|m| !m.simulation_only) {
        let name = &manifest.name;
        let file = Path::new(dir).join(format!("{name}.bpf.o"));
        let data = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        check(manifest, &ElfFile64::parse(&*data).unwrap());
    }
}

/// Functions that `bpf/include/kernel_api.h` declares as the kernel's.
fn kernel_functions() -> BTreeSet<String> {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../bpf/include/kernel_api.h");
    let text = fs::read_to_string(header).unwrap();
    let declarations = text.split("extern ").skip(1);
    let names = declarations.map(|d| d[..d.find('(').unwrap()].to_owned());
    names.map(|n| n.rsplit([' ', '*']).next().unwrap().to_owned()).collect()
}

fn undefined<'a>(elf: &'a Elf<'_>) -> impl Iterator<Item = &'a str> {
    elf.symbols().filter(|s| s.is_undefined()).map(|s| s.name().unwrap()).filter(|n| !n.is_empty())
}

fn programs<'a>(elf: &'a Elf<'_>) -> impl Iterator<Item = (SectionIndex, &'a str)> {
    elf.sections().filter_map(|s| Some((s.index(), s.name().unwrap().strip_prefix("struct_ops/")?)))
}

#[test]
fn kernel_functions_are_found_in_the_header() {
    let known = kernel_functions();
    assert!(
        known.len() >= 15 && known.iter().all(|n| n.starts_with("bpf_cache_ext_")),
        "{known:?}"
    );
}

#[test]
fn undefined_symbols_are_functions_of_the_policy_api() {
    let known = kernel_functions();
    each_object(|manifest, elf| {
        for name in undefined(elf) {
            assert!(known.contains(name), "{}: {name} is not a kernel function", manifest.name);
        }
    });
}

#[test]
fn an_object_has_types_a_table_and_a_licence_and_no_maps_of_its_own() {
    each_object(|Manifest { name, .. }, elf| {
        for section in [".struct_ops.link", ".BTF", ".BTF.ext", "license"] {
            assert!(elf.section_by_name(section).is_some(), "{name}: no section {section}");
        }
        let licence = elf.section_by_name("license").unwrap().data().unwrap();
        assert_eq!(licence, b"Dual BSD/GPL\0", "{name}");
        for section in elf.sections() {
            let section = section.name().unwrap();
            assert!(!section.contains(".maps"), "{name}: defines maps");
        }
    });
}

/// clang leaves templates of initialised structs in `.rodata` even where it builds them in place;
/// a program that read them, tables or literals would need a map that the loader knows nothing of.
/// It knows the size of a state that it cuts, see `POLICY_STATE_BY_PAGES`.
#[test]
fn programs_read_no_constants_from_memory() {
    each_object(|Manifest { name, .. }, elf| {
        for section in elf.sections().filter(|s| s.kind() == SectionKind::Text) {
            for (at, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = elf.symbol_by_index(symbol).unwrap();
                if symbol.name() == Ok("cache_ext_state_pages") {
                    continue;
                }
                let target = symbol.section_index();
                let target =
                    target.map_or("", |i| elf.section_by_index(i).unwrap().name().unwrap());
                let section = section.name().unwrap();
                assert!(!target.starts_with(".rodata"), "{name}: {section}+{at} reads {target}");
            }
        }
    });
}

#[test]
fn an_object_has_one_program_for_each_hook_of_the_manifest() {
    each_object(|Manifest { name, hooks, .. }, elf| {
        let expected: BTreeSet<String> = hooks.iter().map(|h| format!("{name}_{h}")).collect();
        let found: BTreeSet<String> = programs(elf).map(|(_, n)| n.to_owned()).collect();
        assert_eq!(found, expected, "{name}: one program per hook, called POLICY_HOOK");
    });
}

#[test]
fn needs_of_the_manifest_are_what_the_code_calls() {
    each_object(|Manifest { name, needs, .. }, elf| {
        let program = Program::read(elf);
        let helpers: BTreeSet<i32> =
            program.functions.values().flat_map(|f| f.helpers.iter().copied()).collect();
        for number in &helpers {
            let known = HELPERS.iter().any(|(helper, _)| helper == number);
            assert!(known, "{name}: calls helper {number}");
        }
        let by_helper = HELPERS.iter().map(|(helper, need)| (need, helpers.contains(helper)));
        let by_function =
            NEEDS.iter().map(|(function, need)| (need, undefined(elf).any(|n| n == *function)));
        for (need, used) in by_helper.chain(by_function) {
            let declared = needs.iter().any(|n| n == need);
            assert_eq!(declared, used, "{name}: need {need:?}: declared, used");
        }
    });
}

#[test]
fn the_stack_of_every_program_is_within_the_verifiers_bound() {
    each_object(|Manifest { name, .. }, elf| {
        let program = Program::read(elf);
        let state = elf.section_by_name(".bss").map_or(0, |s| s.size());
        let mut total = 0;
        let mut deepest = 0;
        for (section, hook) in programs(elf) {
            let (place, _) = program
                .functions
                .iter()
                .find(|((s, _), f)| *s == section.0 && f.name == hook)
                .unwrap();
            deepest = deepest.max(program.stack_bytes(*place, &mut Vec::new()));
            assert!(deepest <= MAX_STACK_BYTES, "{hook}: {deepest} bytes of stack");
        }
        for function in program.functions.values() {
            total += function.instructions;
        }
        println!("{name}: {total} instructions, {deepest} bytes of stack, {state} of state");
    });
}
