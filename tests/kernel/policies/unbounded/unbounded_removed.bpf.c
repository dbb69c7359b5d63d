/* SPDX-License-Identifier: Apache-2.0 */
/* As unbounded_long, in folio_removed, which may have fewer instructions than other hooks. */
#define WHEN_REMOVING
#define ROUNDS 2000
#include "unbounded_long.bpf.c"
