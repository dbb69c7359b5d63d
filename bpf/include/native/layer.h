/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The code that evicts below a policy without evict_folios, which leaves that to the kernel: the
 * model of the kernel's LRU, the same file that is simulated by itself. Included before policy.bpf.c
 * with CX_LAYER_CODE set to the path of that file; all that the API keeps for it is its own.
 */
#ifndef CACHE_EXT_NATIVE_LAYER_H
#define CACHE_EXT_NATIVE_LAYER_H

#define CX_LAYERED 1

#include "types.h"
#include "layer_manifest.h"

#include "cache_ext.bpf.h"

#undef CX_OWN
#define CX_OWN(name) cx_layer_##name
#define cx_layer_STATE_WORD 0
#include CX_LAYER_CODE
#undef CX_OWN
#define CX_OWN(name) cx_##name

/* The policy's own state begins here, in words of 8 bytes. */
#define cx_STATE_WORD ((sizeof(cx_layer_state_t) + 7) / 8)

#endif
