// SPDX-License-Identifier: Apache-2.0
//! BPF programs of an object file as the verifier will see them: instructions, calls, stack.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionIndex, SymbolKind};

type Elf<'a> = ElfFile64<'a, object::Endianness>;

/// Address of an instruction: section and bytes into it.
type Place = (usize, u64);

const INSTRUCTION_BYTES: usize = 8;
const FRAME_POINTER: u8 = 10;
const PSEUDO_CALL: u8 = 1;
const PSEUDO_FUNC: u8 = 4;

/// A program or one of its functions.
#[derive(Debug, Default)]
pub struct Function {
    pub name: String,
    /// 8 bytes each; loads of 64-bit constants take two.
    pub instructions: usize,
    /// Bytes below the frame pointer.
    pub frame_bytes: u64,
    /// Kernel helpers called, by number.
    pub helpers: BTreeSet<i32>,
    /// Functions of this object that are called or handed out as callbacks.
    callees: BTreeSet<Place>,
}

/// All functions of one object.
pub struct Program {
    pub functions: BTreeMap<Place, Function>,
}

#[derive(Clone, Copy)]
struct Instruction {
    opcode: u8,
    dst: u8,
    src: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    fn decode(bytes: &[u8]) -> Self {
        Self {
            opcode: bytes[0],
            dst: bytes[1] & 0xf,
            src: bytes[1] >> 4,
            offset: i16::from_le_bytes(bytes[2..4].try_into().unwrap()),
            immediate: i32::from_le_bytes(bytes[4..8].try_into().unwrap()),
        }
    }

    /// Offset from the frame pointer of a load or store through it.
    fn frame_access(self) -> Option<i16> {
        let base = match self.opcode & 7 {
            1 => self.src,
            2 | 3 => self.dst,
            _ => return None,
        };
        (base == FRAME_POINTER).then_some(self.offset)
    }

    fn is_call(self) -> bool {
        self.opcode == 0x85
    }

    fn is_wide_load(self) -> bool {
        self.opcode == 0x18
    }
}

impl Program {
    pub fn read(elf: &Elf<'_>) -> Self {
        let functions = elf.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
        let functions = functions.map(|symbol| {
            let section = symbol.section_index().unwrap();
            ((section.0, symbol.address()), function(elf, section, &symbol))
        });
        Self { functions: functions.collect() }
    }

    /// Stack of the deepest chain of calls from `place`, callbacks included.
    ///
    /// # Panics
    /// On recursion.
    pub fn stack_bytes(&self, place: Place, callers: &mut Vec<Place>) -> u64 {
        assert!(!callers.contains(&place), "{} recurses", self.functions[&place].name);
        callers.push(place);
        let function = &self.functions[&place];
        let below = function.callees.iter().map(|&callee| self.stack_bytes(callee, callers)).max();
        callers.pop();
        function.frame_bytes + below.unwrap_or(0)
    }
}

fn function<'a>(elf: &Elf<'a>, section: SectionIndex, symbol: &impl ObjectSymbol<'a>) -> Function {
    let section = elf.section_by_index(section).unwrap();
    let targets: HashMap<u64, RelocationTarget> =
        section.relocations().map(|(at, relocation)| (at, relocation.target())).collect();
    let data = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
    let mut function = Function {
        name: symbol.name().unwrap().into(),
        instructions: data.len() / INSTRUCTION_BYTES,
        ..Function::default()
    };
    let mut frame_copies = BTreeSet::new();
    let mut skip = false;
    for (i, bytes) in data.chunks_exact(INSTRUCTION_BYTES).enumerate() {
        let instruction = Instruction::decode(bytes);
        let at = symbol.address() + (i * INSTRUCTION_BYTES) as u64;
        if !skip {
            note_frame(&mut function, &mut frame_copies, instruction);
            note_call(elf, &mut function, instruction, (section.index().0, at), targets.get(&at));
        }
        skip = !skip && instruction.is_wide_load();
    }
    function
}

/// The lowest byte of the frame that is read, written or pointed to.
fn note_frame(function: &mut Function, copies: &mut BTreeSet<u8>, instruction: Instruction) {
    let mut depth = instruction.frame_access().map_or(0, |offset| -i64::from(offset));
    match instruction.opcode {
        0xbf if instruction.src == FRAME_POINTER => {
            copies.insert(instruction.dst);
        }
        0x07 if copies.remove(&instruction.dst) => depth = -i64::from(instruction.immediate),
        _ => {}
    }
    function.frame_bytes = function.frame_bytes.max(depth.max(0) as u64);
}

fn note_call(
    elf: &Elf<'_>,
    function: &mut Function,
    instruction: Instruction,
    (section, at): Place,
    target: Option<&RelocationTarget>,
) {
    let immediate = i64::from(instruction.immediate);
    let bytes = match (instruction.is_call(), instruction.is_wide_load(), instruction.src) {
        (true, _, 0) => {
            function.helpers.insert(instruction.immediate);
            return;
        }
        (true, _, PSEUDO_CALL) => (immediate + 1) * INSTRUCTION_BYTES as i64,
        (_, true, PSEUDO_FUNC) => immediate,
        (_, true, _) if target.is_some() => immediate,
        _ => return,
    };
    let (section, base) = match target {
        Some(RelocationTarget::Symbol(index)) => {
            let symbol = elf.symbol_by_index(*index).unwrap();
            // Undefined: a function of the kernel.
            let Some(section) = symbol.section_index() else { return };
            (section, symbol.address())
        }
        _ => (SectionIndex(section), at),
    };
    // Wide loads also take addresses of data.
    if elf.section_by_index(section).unwrap().kind() == object::SectionKind::Text {
        function.callees.insert((section.0, base.wrapping_add_signed(bytes)));
    }
}
