/* SPDX-License-Identifier: Apache-2.0 */
/* Input of the programs: numbers on the command line, and streams of pages in files. */
#ifndef KERNEL_GUEST_INPUT_H
#define KERNEL_GUEST_INPUT_H

#include <stdint.h>

/* Returns the decimal value of an option. Exits if it is no number or above `most`. */
uint64_t option_number(const char *text, const char *option, uint64_t most);

/* Returns all page numbers of a file of little-endian 64-bit numbers. Exits if reading fails. */
const uint64_t *read_stream(const char *path, uint64_t *count);

#endif
