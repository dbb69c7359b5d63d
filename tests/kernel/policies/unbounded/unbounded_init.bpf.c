/* SPDX-License-Identifier: Apache-2.0 */
/* Iterators in init. */
#define WHEN_BEGINNING
#define ITERATOR bpf_iter_num
#include "iterating.h"
