#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the samplers ask of a kernel's types into `bpf/sampler/kernels`, from its vmlinuz.

Usage: scripts/sampler_kernels.py NAME=VMLINUZ..., NAME being the release, as in 6.1.0-56-amd64.
Needs bpftool, objcopy, and the program that unpacks the image (zstd, xz, gzip or lz4).

For each kernel there are two files: NAME.btf with the types and fields that exist of those that the
samplers' programs name, and NAME.functions with those functions and tracepoints that exist of those
that they are attached to. Tests relocate the programs against them without the kernel.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bpf" / "sampler" / "kernels"
PARTS = ROOT / "agent" / "src" / "bpf" / "sampler_parts.rs"
FLAGS = ROOT / "bpf" / "include" / "clang.flags"
UNPACKERS = {
    b"\x28\xb5\x2f\xfd": ("zstd", "-dcq"),
    b"\xfd7zXZ\x00": ("xz", "-dcq"),
    b"\x1f\x8b\x08": ("gzip", "-dcq"),
    b"\x02!L\x18": ("lz4", "-dcq"),
}
ELF = b"\x7fELF"
TARGET = re.compile(r'(?:Function|Tracepoint)\("(\w+)"\)')
FUNC = re.compile(r"^\[\d+\] FUNC '(\w+)'", re.MULTILINE)
TRACEPOINT = re.compile(r"^\[\d+\] TYPEDEF 'btf_trace_(\w+)'", re.MULTILINE)


def unpacked(image: bytes) -> bytes:
    """The ELF file in a vmlinuz; what follows the compressed part makes the unpackers complain."""
    for magic, command in UNPACKERS.items():
        for found in re.finditer(re.escape(magic), image):
            piece = image[found.start() :]
            done = subprocess.run(command, input=piece, capture_output=True, check=False)
            if done.stdout.startswith(ELF):
                return done.stdout
    raise SystemExit("no compressed kernel in the image")


def types_of(vmlinuz: Path, folder: Path) -> Path:
    """The kernel's types as a file of their own."""
    elf, types = folder / "vmlinux", folder / "types"
    elf.write_bytes(unpacked(vmlinuz.read_bytes()))
    dump: list[str | Path] = ["objcopy", f"--dump-section=.BTF={types}", elf, folder / "rest"]
    subprocess.run(dump, check=True)
    return types


def sampler(folder: Path) -> Path:
    """The sampler that runs on any kernel, compiled."""
    source, target = ROOT / "bpf" / "sampler" / "sampler.bpf.c", folder / "sampler.o"
    command: list[str | Path] = ["clang-19", f"@{FLAGS}", "-c", "-o", target, source]
    subprocess.run(command, cwd=ROOT, check=True)
    return target


def functions_of(types: Path) -> list[str]:
    """The functions and tracepoints of the kernel that a part of the sampler is attached to."""
    dump: list[str | Path] = ["bpftool", "btf", "dump", "file", types]
    text = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    there = set(FUNC.findall(text)) | set(TRACEPOINT.findall(text))
    return sorted(there & set(TARGET.findall(PARTS.read_text("utf-8"))))


def main() -> None:
    """Writes both files of each kernel."""
    if len(sys.argv) < 2 or not all("=" in word for word in sys.argv[1:]):
        raise SystemExit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    for name, _, vmlinuz in (word.partition("=") for word in sys.argv[1:]):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            types = types_of(Path(vmlinuz), folder)
            target = FOLDER / f"{name}.btf"
            least: list[str | Path] = ["bpftool", "gen", "min_core_btf", types, target]
            subprocess.run([*least, sampler(folder)], check=True)
            text = "\n".join(functions_of(types))
            (FOLDER / f"{name}.functions").write_text(f"{text}\n", "utf-8")
        print(f"{name}: {(FOLDER / f'{name}.btf').stat().st_size} bytes of types")


main()
