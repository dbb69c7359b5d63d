/* SPDX-License-Identifier: Apache-2.0 */
/* Iterators in init, of the kind whose steps the kernel counts. */
#define WHEN_BEGINNING
#define ITERATOR bpf_iter_cache_ext_num
#include "iterating.h"
