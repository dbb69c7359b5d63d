/* SPDX-License-Identifier: Apache-2.0 */
/* Iterators in folio_added. */
#define ITERATOR bpf_iter_num
#include "iterating.h"
