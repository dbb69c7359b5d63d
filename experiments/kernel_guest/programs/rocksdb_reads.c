/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads from RocksDB while it compacts.
 *
 *   rocksdb_reads build DB KEYS RUNS   writes KEYS keys, divided into RUNS level-0 files that each
 *                                      have keys of the whole range
 *   rocksdb_reads read DB STREAM ...   GETs the keys in STREAM, one after another, and again from
 *                                      its start. After a warm-up a manual compaction of the whole
 *                                      database begins at COMPACT_BYTES_PER_SECOND, and latencies
 *                                      are recorded
 *
 * With GETS_PER_SECOND each GET is due at a fixed time, however long the GETs before it took, and
 * its latency counts from that time. With 0 a thread issues the next GET when the last one is
 * answered.
 *
 * The store does not cache data itself, and is opened before the process joins the cgroup, so that
 * the cgroup is mainly charged for pages of the store's files. The program first prints the ids of
 * the compaction threads. Reads begin when a line arrives on stdin.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "latency.h"

#define KEY_BYTES 16
#define VALUE_BYTES 1000
#define MAX_THREADS 16
#define COMPACT_BYTES_PER_SECOND (4 << 20)
#define FILE_BYTES (8 << 20)

static rocksdb_t *db;
static struct counters counters;
static struct latency latency;
static uint64_t *stream;
static uint64_t stream_length;
static atomic_ullong gets;
static uint64_t started_ns;
static double gets_per_second;
static atomic_bool stopped;
static atomic_bool compacting;

static void check(char *error, const char *what)
{
	errno = 0;
	if (error)
		fail("%s: %s", what, error);
}

static rocksdb_options_t *store_options(void)
{
	rocksdb_options_t *options = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

	rocksdb_block_based_options_set_no_block_cache(table, 1);
	rocksdb_block_based_options_set_filter_policy(table,
						      rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_options_set_block_based_table_factory(options, table);
	rocksdb_options_set_create_if_missing(options, 1);
	rocksdb_options_set_compression(options, rocksdb_no_compression);
	rocksdb_options_set_disable_auto_compactions(options, 1);
	rocksdb_options_set_target_file_size_base(options, FILE_BYTES);
	rocksdb_options_set_write_buffer_size(options, 512 << 20);
	rocksdb_options_set_max_background_jobs(options, 2);
	/* Point reads are random. Without this, readahead would add neighbours of each page. */
	rocksdb_options_set_advise_random_on_open(options, 1);
	rocksdb_options_compaction_readahead_size(options, 128 << 10);
	return options;
}

static void open_store(const char *path, bool limited)
{
	rocksdb_options_t *options = store_options();
	char *error = NULL;

	if (limited)
		rocksdb_options_set_ratelimiter(
			options, rocksdb_ratelimiter_create(COMPACT_BYTES_PER_SECOND, 100000, 10));
	db = rocksdb_open(options, path, &error);
	check(error, path);
}

static void key_of(uint64_t number, char *key)
{
	char text[KEY_BYTES + 1];

	snprintf(text, sizeof(text), "%016llu", (unsigned long long)number % 10000000000000000u);
	memcpy(key, text, KEY_BYTES);
}

static int build(const char *path, uint64_t keys, uint64_t runs)
{
	rocksdb_writeoptions_t *write = rocksdb_writeoptions_create();
	rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
	char key[KEY_BYTES], value[VALUE_BYTES], *error = NULL;

	open_store(path, false);
	rocksdb_writeoptions_disable_WAL(write, 1);
	rocksdb_flushoptions_set_wait(flush, 1);
	for (uint64_t run = 0; run < runs; run++) {
		/* Each run has a share of the keys, so that every key is in one file. */
		for (uint64_t number = run; number < keys; number += runs) {
			key_of(number, key);
			memset(value, (int)('a' + number % 26), sizeof(value));
			rocksdb_put(db, write, key, KEY_BYTES, value, VALUE_BYTES, &error);
			check(error, "put");
		}
		rocksdb_flush(db, flush, &error);
		check(error, "flush");
	}
	rocksdb_close(db);
	return 0;
}

static void load_stream(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;

	if (fd < 0 || fstat(fd, &about))
		fail("%s", path);
	stream_length = (uint64_t)about.st_size / sizeof(*stream);
	stream = malloc((size_t)about.st_size);
	if (!stream || !stream_length || read(fd, stream, (size_t)about.st_size) != about.st_size)
		fail("%s: cannot be read whole", path);
	close(fd);
}

/* Waits until GET `number` is due and returns that time; without a rate, returns the time now. */
static uint64_t wait_until_due(uint64_t number)
{
	uint64_t now = monotonic_ns(), due;
	struct timespec time;

	if (gets_per_second <= 0)
		return now;
	due = started_ns + (uint64_t)((double)number / gets_per_second * 1e9);
	time.tv_sec = (time_t)(due / 1000000000);
	time.tv_nsec = (long)(due % 1000000000);
	if (due > now)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
	return due;
}

static void *get(void *argument)
{
	rocksdb_readoptions_t *options = rocksdb_readoptions_create();

	(void)argument;
	while (!atomic_load_explicit(&stopped, memory_order_relaxed)) {
		char key[KEY_BYTES], *value, *error = NULL;
		uint64_t number = atomic_fetch_add(&gets, 1), begun;
		size_t length;

		key_of(stream[number % stream_length], key);
		begun = wait_until_due(number);
		value = rocksdb_get(db, options, key, KEY_BYTES, &length, &error);
		latency_add(&latency, monotonic_ns() - begun);
		check(error, "get");
		errno = 0;
		if (!value)
			fail("get: no key %.*s", KEY_BYTES, key);
		free(value);
	}
	return NULL;
}

static void *compact(void *argument)
{
	rocksdb_compactoptions_t *options = rocksdb_compactoptions_create();

	(void)argument;
	rocksdb_compactoptions_set_bottommost_level_compaction(options, 2);
	rocksdb_compact_range_opt(db, options, NULL, 0, NULL, 0);
	atomic_store(&compacting, false);
	return NULL;
}

/* RocksDB gives the threads that compact the name rocksdb:low. */
static void print_compaction_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const char *separator = " ";

	printf("compaction_tasks");
	for (struct dirent *task; tasks && (task = readdir(tasks));) {
		char path[300], name[32] = "";
		FILE *comm;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		comm = task->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (comm && fgets(name, sizeof(name), comm) && !strncmp(name, "rocksdb:low", 11)) {
			printf("%s%s", separator, task->d_name);
			separator = ",";
		}
		if (comm)
			fclose(comm);
	}
	if (tasks)
		closedir(tasks);
	printf("\n");
	fflush(stdout);
}

static void measure(unsigned warm_seconds, unsigned seconds)
{
	pthread_t compaction;
	uint64_t begun, gets_begun;
	double lasted;

	sleep(warm_seconds);
	counters_print(&counters, "warm", gets, true);
	latency_clear(&latency);
	begun = monotonic_ns();
	gets_begun = gets;
	atomic_store(&compacting, true);
	if (pthread_create(&compaction, NULL, compact, NULL))
		fail("pthread_create");
	for (unsigned second = 0; second < seconds && atomic_load(&compacting); second++)
		sleep(1);
	lasted = (double)(monotonic_ns() - begun) / 1e9;
	printf("{\"at\":\"result\",\"seconds\":%.2f,\"compaction_ended\":%s,"
	       "\"gets_per_second\":%.1f,\"get_p50_us\":%.1f,\"get_p99_us\":%.1f}\n",
	       lasted, atomic_load(&compacting) ? "false" : "true",
	       (double)(gets - gets_begun) / lasted,
	       (double)latency_percentile(&latency, 0.5) / 1e3,
	       (double)latency_percentile(&latency, 0.99) / 1e3);
	counters_print(&counters, "end", gets, true);
}

static int read_store(char **argv)
{
	unsigned threads = (unsigned)atoi(argv[5]);
	pthread_t thread;
	struct stat about;

	errno = 0;
	if (!threads || threads > MAX_THREADS)
		fail("threads: 1 to %d", MAX_THREADS);
	load_stream(argv[3]);
	open_store(argv[2], true);
	if (stat(argv[2], &about))
		fail("%s", argv[2]);
	counters_of(&counters, argv[4], about.st_dev);
	print_compaction_threads();
	if (getchar() == EOF)
		fail("no line on stdin");
	if (mlockall(MCL_CURRENT))
		fail("mlockall");
	join_cgroup(argv[4]);
	gets_per_second = atof(argv[8]);
	started_ns = monotonic_ns();
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, get, NULL))
			fail("pthread_create");
	measure((unsigned)atoi(argv[6]), (unsigned)atoi(argv[7]));
	/* Do not wait for the compaction, which could take minutes to end. */
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "build"))
		return build(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
	if (argc == 9 && !strcmp(argv[1], "read"))
		return read_store(argv);
	fprintf(stderr, "usage: rocksdb_reads build DB KEYS RUNS\n"
			"       rocksdb_reads read DB STREAM CGROUP THREADS WARM_SECONDS SECONDS"
			" GETS_PER_SECOND\n");
	return 2;
}
