/* SPDX-License-Identifier: Apache-2.0 */
/* As unbounded_long, in exit. */
#define WHEN_ENDING
#include "unbounded_long.bpf.c"
