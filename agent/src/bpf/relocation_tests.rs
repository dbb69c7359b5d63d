// SPDX-License-Identifier: Apache-2.0
//! Relocates both samplers against the types of kernels that distributions ship, see
//! `bpf/sampler/kernels/README.md`. Code that needs something a kernel lacks must not be reachable
//! on that kernel.

use super::sampler::parts::{PARTS, Programs, Target, choose_of};
use aya_obj::Object;
use aya_obj::btf::Btf;
use aya_obj::generated::bpf_insn;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bpf/sampler/kernels");
/// The immediate that replaces an instruction that could not be relocated.
const POISON: i32 = 0x0BAD_2310;

const LD: u8 = 0;
const LDX: u8 = 1;
const STX: u8 = 3;
const ALU: u8 = 4;
const JMP: u8 = 5;
const JMP32: u8 = 6;
const ALU64: u8 = 7;
const JEQ: u8 = 0x10;
const JNE: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const MOV: u8 = 0xb0;

/// The types of a kernel that the sampler needs, and its functions.
struct Kernel {
    name: String,
    types: PathBuf,
    functions: HashSet<String>,
}

fn kernels() -> Vec<Kernel> {
    let entries = std::fs::read_dir(KERNELS).unwrap().map(|entry| entry.unwrap().path());
    let types = entries.filter(|path| path.extension().is_some_and(|ext| ext == "btf"));
    let kernel = |types: PathBuf| {
        let functions = std::fs::read_to_string(types.with_extension("functions")).unwrap();
        let functions = functions.lines().map(Into::into).collect();
        let name = types.file_stem().unwrap().to_string_lossy().into_owned();
        Kernel { name, types, functions }
    };
    types.map(kernel).collect()
}

impl Kernel {
    fn has(&self, target: Target) -> bool {
        let (Target::Function(name) | Target::Tracepoint(name)) = target;
        self.functions.contains(name)
    }

    /// The programs that are loaded on it, by part.
    fn chosen(&self) -> Vec<(&'static str, Programs)> {
        PARTS.iter().map(|part| (part.name, choose_of(part, |target| self.has(target)))).collect()
    }
}

fn relocated(object_file: &[u8], types: &Path) -> Object {
    let mut object = Object::parse(object_file).unwrap();
    let types = Btf::parse(&std::fs::read(types).unwrap(), Default::default()).unwrap();
    object.relocate_btf(&types).unwrap();
    object
}

/// The functions of an object in which an instruction that cannot be relocated is reachable.
fn unfit(object: &Object) -> Vec<&str> {
    let functions = object.functions.values();
    functions.filter(|one| reaches_poison(&one.instructions)).map(|one| one.name.as_str()).collect()
}

type Registers = [Option<i64>; 11];

/// Follows both branches of a jump unless the value of its register is known, as the verifier does.
fn reaches_poison(code: &[bpf_insn]) -> bool {
    let mut seen = HashSet::new();
    let mut ways: Vec<(usize, Registers)> = vec![(0, [None; 11])];
    while let Some((at, mut registers)) = ways.pop() {
        if at >= code.len() || !seen.insert((at, registers)) {
            continue;
        }
        let one = &code[at];
        let (class, kind, immediate) = (one.code & 7, one.code & 0xf0, one.code & 8 == 0);
        let (to, from) = (usize::from(one.dst_reg()), usize::from(one.src_reg()));
        let mut next = at + 1;
        match class {
            JMP | JMP32 if kind == EXIT => continue,
            JMP if kind == CALL && from == 0 && one.imm == POISON => return true,
            JMP if kind == CALL => registers[..6].fill(None),
            JMP | JMP32 => {
                let target = at.wrapping_add_signed(isize::from(one.off) + 1);
                match branches(one, registers[to].filter(|_| immediate)) {
                    Some(true) => next = target,
                    Some(false) => {}
                    None => ways.push((target, registers)),
                }
            }
            ALU | ALU64 if kind == MOV && immediate => registers[to] = Some(one.imm.into()),
            ALU | ALU64 if kind == MOV => registers[to] = registers[from],
            LD => (registers[to], next) = (None, at + 2),
            ALU | ALU64 | LDX => registers[to] = None,
            // An atomic operation may fetch into the register that it adds.
            STX => registers[from] = None,
            _ => {}
        }
        ways.push((next, registers));
    }
    false
}

/// Whether a jump is taken; `None` if that is unknown.
fn branches(jump: &bpf_insn, value: Option<i64>) -> Option<bool> {
    match jump.code & 0xf0 {
        0 => Some(true),
        JEQ => value.map(|value| value == i64::from(jump.imm)),
        JNE => value.map(|value| value != i64::from(jump.imm)),
        _ => None,
    }
}

#[test]
fn on_every_kernel_everything_is_seen_that_it_has_functions_for() {
    let kernels = kernels();
    assert!(kernels.len() >= 3, "{KERNELS}");
    for kernel in kernels {
        let object = relocated(super::sampler::OBJECT, &kernel.types);
        let unfit = unfit(&object);
        for (part, programs) in kernel.chosen() {
            let why = format!("{part} on {}: {unfit:?}", kernel.name);
            assert!(programs.iter().all(|program| !unfit.contains(&program.0)), "{why}");
            assert!(!programs.is_empty() || part == "splices", "{why}: no functions");
        }
        let shared = ["sample_page", "sample_chunk", "sample_pages", "folio_gone"];
        assert!(!unfit.iter().any(|name| shared.contains(name)), "{}: {unfit:?}", kernel.name);
    }
}

/// The types of a kernel in which a field has another name of the same length.
fn renamed(types: &Path, from: &str, to: &str) -> (tempfile::TempDir, PathBuf) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(types).unwrap();
    let places = bytes.windows(from.len()).enumerate();
    let places = places.filter(|(_, text)| *text == from.as_bytes()).map(|(at, _)| at);
    let places: Vec<usize> = places.collect();
    assert!(!places.is_empty(), "{from}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("renamed.btf");
    std::fs::write(&file, bytes).unwrap();
    (dir, file)
}

#[test]
fn a_field_that_is_gone_costs_the_parts_that_need_it_alone() {
    for kernel in kernels() {
        for (field, other, lost) in [
            ("memcg_data", "memcg_dote", &["evictions", "refaults", "removals"][..]),
            ("prev_pos", "prev_pus", &["reads"]),
            ("xa_head", "xa_hood", &[]),
        ] {
            let (_dir, types) = renamed(&kernel.types, field, other);
            let object = relocated(super::sampler::OBJECT, &types);
            let unfit = unfit(&object);
            assert!(!unfit.contains(&"sample_page"), "{field} on {}", kernel.name);
            for (part, programs) in kernel.chosen() {
                // The function that they call in common is a function of its own.
                let called = if lost.contains(&"removals") { "folio_gone" } else { "" };
                let is_unfit = |name: &str| unfit.contains(&name);
                let refused = programs.iter().any(|program| is_unfit(program.0))
                    || (part == "removals" && is_unfit(called));
                let why = format!("{part} without {field} on {}: {unfit:?}", kernel.name);
                assert_eq!(refused, lost.contains(&part), "{why}");
            }
        }
    }
}
