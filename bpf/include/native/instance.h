/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Creation and destruction of a simulated instance, and the table of functions that user space
 * calls.
 */
#ifndef CACHE_EXT_NATIVE_INSTANCE_H
#define CACHE_EXT_NATIVE_INSTANCE_H

#include "adopt.h"
#include "check.h"
#include "page_cache.h"
#include "state_memory.h"
#include "stepwise.h"

/* Called from Rust, which declares the same layout. */
struct cx_vtable {
	const char *name;
	u64 node_bytes;
	struct cx_sim *(*create)(u64 capacity, u32 batch, u64 seed, const u32 *tunables);
	void (*destroy)(struct cx_sim *sim);
	int (*run)(struct cx_sim *sim, const u64 *keys, const u32 *tasks, const u64 *times_ns,
		   u64 count, u8 *hits);
	void (*forget)(struct cx_sim *sim, u64 key);
	int (*resize)(struct cx_sim *sim, u64 capacity, u32 batch);
	void (*set_tunables)(struct cx_sim *sim, const u32 *tunables);
	void (*set_refusals)(struct cx_sim *sim, u32 per_million);
	const char *(*check)(struct cx_sim *sim);
	void (*stats)(const struct cx_sim *sim, struct cx_stats *stats);
	void (*resident)(const struct cx_sim *sim, u64 *keys);
	int (*adopt)(struct cx_sim *sim, const u64 *keys, u64 count);
	int (*log_evictions)(struct cx_sim *sim, u64 capacity);
	const struct cx_eviction *(*take_evictions)(struct cx_sim *sim, u64 *count);
	void (*begin_request)(struct cx_sim *sim, u32 task, const u64 *time_ns);
	void (*end_request)(struct cx_sim *sim, u64 pages);
	bool (*holds)(struct cx_sim *sim, u64 key);
	int (*add_page)(struct cx_sim *sim, u64 key, bool ahead);
	void (*access_page)(struct cx_sim *sim, u64 key);
};

static void cx_set_ghost_capacities(struct cx_sim *sim)
{
	for (u32 i = 0; i < sim->nr_ghosts; i++) {
		u64 pages = sim->capacity * sim->ghost_pct[i] / 100;

		sim->ghost_capacity[i] = pages ? pages : 1;
	}
}

static void cx_destroy(struct cx_sim *sim)
{
	if (!sim)
		return;
	cx_self = sim;
	if (cx_ops.exit)
		cx_ops.exit(NULL);
	free(sim->eviction_log);
	free(sim->nodes);
	free(sim->index.slots);
	cx_release_sim(sim);
}

/* The tunables of a layer below follow those of the policy. */
static void cx_set_tunables(struct cx_sim *sim, const u32 *tunables)
{
	memcpy(&sim->cx_tunables, tunables, CACHE_EXT_TUNABLE_WORDS * sizeof(u32));
#ifdef CX_LAYERED
	memcpy(&sim->cx_layer_tunables, tunables + CACHE_EXT_TUNABLE_WORDS,
	       CX_LAYER_TUNABLE_WORDS * sizeof(u32));
#endif
}

static struct cx_sim *cx_create(u64 capacity, u32 batch, u64 seed, const u32 *tunables)
{
	struct cx_sim *sim = cx_allocate_sim();

	if (!sim)
		return NULL;
	sim->capacity = capacity;
	sim->batch = batch;
	sim->random = cx_hash(seed) | 1;
	sim->refusal_random = cx_hash(~seed) | 1;
	sim->fresh = CX_ANCHORS;
	cx_set_tunables(sim, tunables);
	cx_self = sim;
	if (cx_ops.init && cx_ops.init(NULL))
		goto fail;
	cx_set_ghost_capacities(sim);
	sim->node_count = cx_first_nodes(sim);
	sim->nodes = calloc(sim->node_count, sizeof(struct folio));
	if (!sim->nodes ||
	    cx_index_create(&sim->index, sim->node_count, cx_homes_for(sim->node_count)))
		goto fail;
	for (u32 i = 0; i < CX_ANCHORS; i++)
		sim->nodes[i].prev = sim->nodes[i].next = i;
	return sim;
fail:
	cx_destroy(sim);
	return NULL;
}

static int cx_run(struct cx_sim *sim, const u64 *keys, const u32 *tasks, const u64 *times_ns,
		  u64 count, u8 *hits)
{
	int error;

	cx_self = sim;
	if (!count)
		return 0;
	sim->tasks = tasks;
	sim->times_ns = times_ns;
	sim->column_start = sim->now;
	error = hits ? cx_run_blocks(keys, count, hits) : cx_run_blocks(keys, count, NULL);
	/*
	 * Hooks also run between two runs, when these columns are no longer valid. The clock then
	 * stands still at the last request.
	 */
	sim->tasks = NULL;
	if (times_ns) {
		sim->last_ns = times_ns[count - 1];
		sim->times_ns = &sim->last_ns;
		sim->column_start = sim->now;
	}
	return error;
}

/* Remove a page as truncation does: no ghost of it remains. */
static void cx_forget(struct cx_sim *sim, u64 key)
{
	u32 number;

	cx_self = sim;
	number = cx_find(key, cx_hash(key));
	if (!number)
		return;
	if (CX_IS_GHOST(sim->nodes[number].list)) {
		cx_unlink(&sim->nodes[number]);
		cx_free(&sim->nodes[number]);
	} else {
		cx_remove(&sim->nodes[number], false);
	}
}

static int cx_resize(struct cx_sim *sim, u64 capacity, u32 batch)
{
	u64 needed;

	cx_self = sim;
	sim->capacity = capacity;
	sim->batch = batch;
	while (sim->resident > capacity) {
		u64 excess = sim->resident - capacity;

		cx_reclaim(excess < batch ? excess : batch);
	}
	cx_set_ghost_capacities(sim);
	for (u32 i = 0; i < sim->nr_ghosts; i++)
		bpf_cache_ext_ghost_trim(CX_LISTS + i, sim->ghost_capacity[i]);
	needed = cx_first_nodes(sim);
	if (needed > sim->node_count && !cx_set_node_count(needed))
		return -ENOMEM;
	return 0;
}

static void cx_set_refusals(struct cx_sim *sim, u32 per_million)
{
	sim->refused_per_million = per_million;
}

static const char *cx_check_instance(struct cx_sim *sim)
{
	cx_self = sim;
	return cx_check();
}

static void cx_get_stats(const struct cx_sim *sim, struct cx_stats *stats)
{
	*stats = sim->stats;
	stats->requests = sim->now;
	stats->resident = sim->resident;
	for (u32 i = 0; i < sim->nr_ghosts; i++)
		stats->ghosts += sim->len[CX_LISTS + i];
	stats->state_bytes = cx_state_memory(sim);
	stats->bytes = sizeof(*sim) + stats->state_bytes + sim->node_count * sizeof(struct folio) +
		       cx_index_bytes(&sim->index);
}

/*
 * Log the pages that reclaim evicts from now on. The log holds up to `capacity` entries until they
 * are taken.
 */
static int cx_log_evictions(struct cx_sim *sim, u64 capacity)
{
	struct cx_eviction *log = calloc(capacity, sizeof(*log));

	if (!log)
		return -ENOMEM;
	free(sim->eviction_log);
	sim->eviction_log = log;
	sim->log_capacity = capacity;
	sim->logged = 0;
	return 0;
}

/*
 * The entries are valid until the instance runs again. If `count` exceeds the capacity of the log,
 * the entries beyond it are lost.
 */
static const struct cx_eviction *cx_take_evictions(struct cx_sim *sim, u64 *count)
{
	*count = sim->logged;
	sim->logged = 0;
	return sim->eviction_log;
}

#define CX_CONCAT(a, b) a##b
#define CX_VTABLE(name) CX_CONCAT(cx_policy_, name)

extern const struct cx_vtable CX_VTABLE(CACHE_EXT_POLICY);
const struct cx_vtable CX_VTABLE(CACHE_EXT_POLICY) = {
	.name = CACHE_EXT_POLICY_NAME,
	.node_bytes = sizeof(struct folio),
	.create = cx_create,
	.destroy = cx_destroy,
	.run = cx_run,
	.forget = cx_forget,
	.resize = cx_resize,
	.set_tunables = cx_set_tunables,
	.set_refusals = cx_set_refusals,
	.check = cx_check_instance,
	.stats = cx_get_stats,
	.resident = cx_resident,
	.adopt = cx_adopt,
	.log_evictions = cx_log_evictions,
	.take_evictions = cx_take_evictions,
	.begin_request = cx_begin_request,
	.end_request = cx_end_request,
	.holds = cx_holds,
	.add_page = cx_add_page,
	.access_page = cx_access_page,
};

#endif
