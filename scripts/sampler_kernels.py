#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the kernel types that the samplers need into `bpf/sampler/kernels`, from a vmlinuz.

Usage: scripts/sampler_kernels.py NAME=VMLINUZ..., where NAME is the release, such as
6.1.0-56-amd64. Needs bpftool, objcopy, and the program that unpacks the image (zstd, xz, gzip or
lz4).

There are two files per kernel. NAME.btf has the types and fields that the samplers' programs name,
if the kernel has them. NAME.functions has the functions and tracepoints that they attach to, if the
kernel has them. Tests relocate the programs against these files without the kernel.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bpf" / "sampler" / "kernels"
PARTS = ROOT / "agent" / "src" / "bpf" / "sampler" / "parts.rs"
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
    """Return the ELF file in a vmlinuz.

    Data after the compressed part makes the unpackers fail, so their status does not count.
    """
    for magic, command in UNPACKERS.items():
        for found in re.finditer(re.escape(magic), image):
            piece = image[found.start() :]
            done = subprocess.run(command, input=piece, capture_output=True, check=False)
            if done.stdout.startswith(ELF):
                return done.stdout
    raise SystemExit("no compressed kernel in the image")


def types_of(vmlinuz: Path, folder: Path) -> Path:
    """Return the kernel's types as a file of their own."""
    elf, types = folder / "vmlinux", folder / "types"
    elf.write_bytes(unpacked(vmlinuz.read_bytes()))
    dump: list[str | Path] = ["objcopy", f"--dump-section=.BTF={types}", elf, folder / "rest"]
    subprocess.run(dump, check=True)
    return types


def sampler(folder: Path) -> Path:
    """Compile the sampler that runs on any kernel."""
    source, target = ROOT / "bpf" / "sampler" / "sampler.bpf.c", folder / "sampler.o"
    command: list[str | Path] = ["clang-19", f"@{FLAGS}", "-c", "-o", target, source]
    subprocess.run(command, cwd=ROOT, check=True)
    return target


def functions_of(types: Path) -> list[str]:
    """Return the kernel's functions and tracepoints that a part of the sampler attaches to."""
    dump: list[str | Path] = ["bpftool", "btf", "dump", "file", types]
    text = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    there = set(FUNC.findall(text)) | set(TRACEPOINT.findall(text))
    return sorted(there & set(TARGET.findall(PARTS.read_text("utf-8"))))


def main() -> None:
    """Write both files of each kernel."""
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
