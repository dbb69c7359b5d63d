/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Admission filter: misses of listed tasks are not cached. Eviction is left to the kernel. */
#include "cache_ext.bpf.h"

/* Elements of filtered_tasks in policy.toml. */
#define FILTERED_TASKS 16

/* A task id of 0 is no task: neither a listed one nor one that is known. */
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
