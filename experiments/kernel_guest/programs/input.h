/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs are given: numbers on the command line, streams of pages in files. */
#ifndef KERNEL_GUEST_INPUT_H
#define KERNEL_GUEST_INPUT_H

#include <stdint.h>

/* The decimal number that the option was given, at most `most`; else the program fails. */
uint64_t option_number(const char *text, const char *option, uint64_t most);

/* All page numbers of the file, little-endian 64-bit each; else the program fails. */
const uint64_t *read_stream(const char *path, uint64_t *count);

#endif
