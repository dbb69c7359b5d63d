/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a node holds beside its links: the folio's state while the page is resident, the ghost's
 * value afterwards. Ghosts are those of the code that evicts, the policy's or the layer's below it;
 * with a layer, the policy's state stands behind that one's. Included after policy_manifest.h.
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
