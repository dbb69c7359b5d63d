/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point reads concurrent with range scans of one sorted file. A page stands for the block of a key.
 *
 * GET threads read the pages of a recorded stream, one after another, and start again at its end.
 * SCAN threads read runs of consecutive pages with random starts. A thread either GETs or SCANs.
 * The ids of the threads are printed first. The threads start when a line arrives on stdin, so that
 * a policy can be attached before with the ids of the threads that scan.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "input.h"
#include "latency.h"

#define PAGE_BYTES 4096
#define MAX_THREADS 16

struct options {
	const char *file;
	const char *stream; /* pages of GETs, a .u64 file */
	const char *cgroup;
	const char *advice; /* of SCAN threads: none, noreuse, sequential, dontneed */
	unsigned get_threads;
	unsigned scan_threads;
	unsigned scan_pages;
	unsigned scan_pause_ms; /* between two scans of a thread */
	unsigned warm_seconds;
	unsigned seconds;
};

static struct options options = {
	.cgroup = "",
	.advice = "none",
	.get_threads = 4,
	.scan_threads = 1,
	.scan_pages = 1024,
	.warm_seconds = 10,
	.seconds = 20,
};
static struct counters counters;
static struct latency get_latency;
static const uint64_t *get_pages;
static uint64_t get_count;
static uint64_t file_pages;
static atomic_ullong gets;
static atomic_ullong scanned_pages;
static atomic_int thread_ids[MAX_THREADS];
static atomic_bool started;
static atomic_bool stopped;

static unsigned number(const char *text, const char *option)
{
	return (unsigned)option_number(text, option, 1000000000);
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"file", required_argument, NULL, 'f'},
		{"stream", required_argument, NULL, 's'},
		{"cgroup", required_argument, NULL, 'c'},
		{"advice", required_argument, NULL, 'a'},
		{"get-threads", required_argument, NULL, 'g'},
		{"scan-threads", required_argument, NULL, 't'},
		{"scan-pages", required_argument, NULL, 'p'},
		{"scan-pause-ms", required_argument, NULL, 'i'},
		{"warm-seconds", required_argument, NULL, 'w'},
		{"seconds", required_argument, NULL, 'n'},
		{NULL, 0, NULL, 0},
	};

	for (int key; (key = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (key) {
		case 'f':
			options.file = optarg;
			break;
		case 's':
			options.stream = optarg;
			break;
		case 'c':
			options.cgroup = optarg;
			break;
		case 'a':
			options.advice = optarg;
			break;
		case 'g':
			options.get_threads = number(optarg, "get-threads");
			break;
		case 't':
			options.scan_threads = number(optarg, "scan-threads");
			break;
		case 'p':
			options.scan_pages = number(optarg, "scan-pages");
			break;
		case 'i':
			options.scan_pause_ms = number(optarg, "scan-pause-ms");
			break;
		case 'w':
			options.warm_seconds = number(optarg, "warm-seconds");
			break;
		case 'n':
			options.seconds = number(optarg, "seconds");
			break;
		default:
			exit(1);
		}
	}
	errno = 0;
	if (!options.file || !options.stream)
		fail("get_scan: --file and --stream are needed");
	if (options.get_threads + options.scan_threads > MAX_THREADS)
		fail("get_scan: at most %d threads", MAX_THREADS);
}

static int open_file(int advice)
{
	int fd = open(options.file, O_RDONLY | O_CLOEXEC);
	struct stat about;

	if (fd < 0 || fstat(fd, &about))
		fail("%s", options.file);
	file_pages = (uint64_t)about.st_size / PAGE_BYTES;
	counters_of(&counters, options.cgroup, about.st_dev);
	if (posix_fadvise(fd, 0, 0, advice))
		fail("%s: posix_fadvise", options.file);
	return fd;
}

/* Waits until all threads may start, and returns the thread's number. */
static unsigned wait_for_start(const void *argument)
{
	unsigned self = (unsigned)(uintptr_t)argument;

	atomic_store(&thread_ids[self], gettid());
	while (!atomic_load(&started))
		usleep(10000);
	return self;
}

static void *get(void *argument)
{
	static _Thread_local char buffer[PAGE_BYTES];
	int fd = open_file(POSIX_FADV_RANDOM);

	wait_for_start(argument);
	while (!atomic_load_explicit(&stopped, memory_order_relaxed)) {
		uint64_t page = get_pages[atomic_fetch_add(&gets, 1) % get_count];
		uint64_t begun = monotonic_ns();

		if (pread(fd, buffer, PAGE_BYTES, (off_t)(page * PAGE_BYTES)) != PAGE_BYTES)
			fail("%s: page %llu", options.file, (unsigned long long)page);
		latency_add(&get_latency, monotonic_ns() - begun);
	}
	return NULL;
}

static int scan_advice(void)
{
	if (!strcmp(options.advice, "noreuse"))
		return POSIX_FADV_NOREUSE;
	if (!strcmp(options.advice, "sequential"))
		return POSIX_FADV_SEQUENTIAL;
	if (!strcmp(options.advice, "none") || !strcmp(options.advice, "dontneed"))
		return POSIX_FADV_NORMAL;
	errno = 0;
	fail("--advice: none, noreuse, sequential or dontneed, not %s", options.advice);
}

/* splitmix64 (Steele, Lea, Flood 2014). Scans start at the same pages in every run. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static void scan_once(int fd, uint64_t first)
{
	static _Thread_local char buffer[PAGE_BYTES];

	for (uint64_t i = 0; i < options.scan_pages; i++) {
		if (atomic_load_explicit(&stopped, memory_order_relaxed))
			return;
		if (pread(fd, buffer, PAGE_BYTES, (off_t)((first + i) * PAGE_BYTES)) != PAGE_BYTES)
			fail("%s: scan", options.file);
		atomic_fetch_add_explicit(&scanned_pages, 1, memory_order_relaxed);
	}
	if (!strcmp(options.advice, "dontneed"))
		posix_fadvise(fd, (off_t)(first * PAGE_BYTES),
			      (off_t)options.scan_pages * PAGE_BYTES, POSIX_FADV_DONTNEED);
}

static void *scan(void *argument)
{
	int fd = open_file(scan_advice());
	uint64_t random = wait_for_start(argument);

	while (!atomic_load(&stopped)) {
		scan_once(fd, next_random(&random) % (file_pages - options.scan_pages));
		usleep(options.scan_pause_ms * 1000);
	}
	return NULL;
}

static void print_thread_ids(const char *kind, unsigned first, unsigned end)
{
	printf("%s", kind);
	for (unsigned i = first; i < end; i++) {
		while (!atomic_load(&thread_ids[i]))
			usleep(1000);
		printf("%s%d", i > first ? "," : " ", atomic_load(&thread_ids[i]));
	}
	printf("\n");
	fflush(stdout);
}

static void measure(void)
{
	uint64_t begun, gets_begun, scanned_begun;
	double seconds;

	sleep(options.warm_seconds);
	counters_print(&counters, "warm", gets, true);
	latency_clear(&get_latency);
	begun = monotonic_ns();
	gets_begun = gets;
	scanned_begun = scanned_pages;
	sleep(options.seconds);
	seconds = (double)(monotonic_ns() - begun) / 1e9;
	printf("{\"at\":\"result\",\"gets_per_second\":%.1f,\"scanned_pages_per_second\":%.1f,"
	       "\"get_p50_us\":%.1f,\"get_p99_us\":%.1f}\n",
	       (double)(gets - gets_begun) / seconds,
	       (double)(scanned_pages - scanned_begun) / seconds,
	       (double)latency_percentile(&get_latency, 0.5) / 1e3,
	       (double)latency_percentile(&get_latency, 0.99) / 1e3);
	counters_print(&counters, "end", gets, true);
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	unsigned all;

	parse(argc, argv);
	all = options.get_threads + options.scan_threads;
	get_pages = read_stream(options.stream, &get_count);
	if (!get_count)
		fail("%s: no accesses", options.stream);
	close(open_file(scan_advice()));
	if (options.scan_pages >= file_pages)
		fail("--scan-pages: the file has %llu", (unsigned long long)file_pages);
	if (mlockall(MCL_CURRENT))
		fail("mlockall");
	if (options.cgroup[0])
		join_cgroup(options.cgroup);
	for (unsigned i = 0; i < all; i++)
		if (pthread_create(&threads[i], NULL, i < options.get_threads ? get : scan,
				   (void *)(uintptr_t)i))
			fail("pthread_create");
	print_thread_ids("get_tasks", 0, options.get_threads);
	print_thread_ids("scan_tasks", options.get_threads, all);
	if (getchar() == EOF)
		fail("no line on stdin");
	atomic_store(&started, true);
	measure();
	atomic_store(&stopped, true);
	for (unsigned i = 0; i < all; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
