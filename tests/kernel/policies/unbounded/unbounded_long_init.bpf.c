/* SPDX-License-Identifier: Apache-2.0 */
/* As unbounded_long, in init. */
#define WHEN_BEGINNING
#include "unbounded_long.bpf.c"
