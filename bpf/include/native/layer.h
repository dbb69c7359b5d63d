/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layer below a policy without evict_folios. Such a policy leaves eviction to the kernel, so in
 * simulation this layer evicts: the model of the kernel's LRU, compiled from the same file as the
 * policy kernel_lru. This header is included before policy.bpf.c, with CX_LAYER_CODE set to the
 * path of that file. The layer has its own state, folio state, tunables and table of hooks.
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

/* The state of the policy starts here, in words of 8 bytes. */
#define cx_STATE_WORD ((sizeof(cx_layer_state_t) + 7) / 8)

#endif
