/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a node stores besides its links: the state of the folio while the page is resident, and the
 * value of the ghost afterwards. Ghosts belong to the code that evicts, that is, to the policy or
 * to the layer below it (see layer.h). If there is a layer, the policy's state follows the bytes of
 * the layer. Include this header after policy_manifest.h.
 */
#ifndef CACHE_EXT_NATIVE_NODE_STATE_H
#define CACHE_EXT_NATIVE_NODE_STATE_H

#define cx_FOLIO_STATE_BYTES CACHE_EXT_FOLIO_STATE_BYTES
#define cx_layer_FOLIO_STATE_AT 0

#ifdef CX_LAYERED
#define CX_EVICTOR_STATE_BYTES cx_layer_FOLIO_STATE_BYTES
#define CX_GHOST_VALUE_BYTES CX_LAYER_GHOST_VALUE_BYTES
#else
#define CX_EVICTOR_STATE_BYTES CACHE_EXT_FOLIO_STATE_BYTES
#define CX_GHOST_VALUE_BYTES CACHE_EXT_GHOST_VALUE_BYTES
#endif

#if CX_EVICTOR_STATE_BYTES > CX_GHOST_VALUE_BYTES
#define CX_EVICTOR_BYTES CX_EVICTOR_STATE_BYTES
#else
#define CX_EVICTOR_BYTES CX_GHOST_VALUE_BYTES
#endif

#if defined(CX_LAYERED) && CACHE_EXT_FOLIO_STATE_BYTES > 0
#define cx_FOLIO_STATE_AT ((CX_EVICTOR_BYTES + 3) / 4 * 4)
#define CX_NODE_STATE_BYTES (cx_FOLIO_STATE_AT + CACHE_EXT_FOLIO_STATE_BYTES)
#else
#define cx_FOLIO_STATE_AT 0
#define CX_NODE_STATE_BYTES CX_EVICTOR_BYTES
#endif

#endif
