/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Admission filter: misses of listed tasks are not cached. The kernel evicts as without a policy.
 */
#include "cache_ext.bpf.h"

/* Number of elements of filtered_tasks in policy.toml. */
#define FILTERED_TASKS 16

/* An id of 0 marks an unused element of filtered_tasks, and a task that is not known. */
CACHE_EXT_HOOK(bool, admission_admit_folio, u64 page_key)
{
	u32 task = cache_ext_current_task();

	if (!task)
		return true;
	for (int i = 0; i < FILTERED_TASKS; i++)
		if (TUNABLE(filtered_tasks)[i] == task)
			return false;
	return true;
}

CACHE_EXT_OPS(admission, .admit_folio = HOOK(admission_admit_folio));
