/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays a recorded stream of pages as 4 KiB reads of one file without readahead, and prints the
 * kernel's counts: at the start, after the warm-up, after equal shares of the rest, and at the end.
 *
 *   --step N        prints a line after every N accesses instead, also in the warm-up
 *   --every-ms N    prints lines by time instead
 *   --seconds N     plays the stream again and again for N seconds; needs --every-ms
 *   --readahead     leaves readahead on, and counts reads that find some page not cached, for which
 *                   the kernel has no separate count
 *   --read-pages N  reads N pages at a time, from the page in the stream on
 *
 * The stream is loaded before this process joins the cgroup, and a process outside the cgroup reads
 * and prints the counters. The cgroup is therefore charged for the pages of the file and almost
 * nothing else. One thread plays the stream in its order. Of several threads, each takes the next
 * page of the stream when it is ready.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "counters.h"
#include "input.h"

#define PAGE_BYTES 4096
#define MAX_READ_PAGES 64
#define MAX_THREADS 64
#ifndef SYS_cachestat
#define SYS_cachestat 451 /* Linux 6.5 */
#endif

struct options {
	const char *file;
	const char *stream;
	const char *cgroup;
	uint64_t warmup;   /* accesses */
	uint64_t ticks;	   /* lines between warm-up and end */
	uint64_t step;	   /* if set: accesses between two lines, also in the warm-up */
	uint64_t every_ms; /* if set: time between two lines */
	uint64_t seconds;  /* if set: duration after the warm-up; the stream is repeated */
	uint64_t pause_us; /* after every access */
	uint64_t read_pages;
	unsigned threads;
	bool readahead;
};

static struct options options = {.cgroup = "", .ticks = 32, .threads = 1, .read_pages = 1};
static struct counters counters;
static const uint64_t *pages;
static uint64_t page_count;
static uint64_t stop_at; /* end of the part that is being played, in accesses */
static atomic_ullong uncached_reads;
static atomic_ullong next_access;
static atomic_bool played;

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"file", required_argument, NULL, 'f'},
		{"stream", required_argument, NULL, 's'},
		{"cgroup", required_argument, NULL, 'c'},
		{"warmup", required_argument, NULL, 'w'},
		{"ticks", required_argument, NULL, 'n'},
		{"step", required_argument, NULL, 'k'},
		{"every-ms", required_argument, NULL, 'e'},
		{"seconds", required_argument, NULL, 'd'},
		{"threads", required_argument, NULL, 't'},
		{"pause-us", required_argument, NULL, 'p'},
		{"readahead", no_argument, NULL, 'r'},
		{"read-pages", required_argument, NULL, 'g'},
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
		case 'w':
			options.warmup = option_number(optarg, "warmup", UINT64_MAX);
			break;
		case 'n':
			options.ticks = option_number(optarg, "ticks", UINT64_MAX);
			break;
		case 'k':
			options.step = option_number(optarg, "step", UINT64_MAX);
			break;
		case 'e':
			options.every_ms = option_number(optarg, "every-ms", UINT64_MAX);
			break;
		case 'd':
			options.seconds = option_number(optarg, "seconds", UINT32_MAX);
			break;
		case 't':
			options.threads = (unsigned)option_number(optarg, "threads", UINT32_MAX);
			break;
		case 'p':
			options.pause_us = option_number(optarg, "pause-us", UINT64_MAX);
			break;
		case 'r':
			options.readahead = true;
			counters.uncached_reads = &uncached_reads;
			break;
		case 'g':
			options.read_pages = option_number(optarg, "read-pages", MAX_READ_PAGES);
			break;
		default:
			exit(1);
		}
	}
	errno = 0;
	if (!options.file || !options.stream)
		fail("play_stream: --file and --stream are needed");
	if (!options.threads || options.threads > MAX_THREADS)
		fail("--threads: 1 to %d", MAX_THREADS);
	if (!options.read_pages)
		fail("--read-pages: 1 to %d", MAX_READ_PAGES);
	if (options.seconds && !options.every_ms)
		fail("--seconds needs --every-ms");
}

static void load_stream(void)
{
	pages = read_stream(options.stream, &page_count);
	errno = 0;
	if (options.warmup >= page_count)
		fail("%s: %llu accesses, not more than --warmup", options.stream,
		     (unsigned long long)page_count);
}

/* Each thread has its own descriptor, because readahead depends on its last position. */
static int open_file(void)
{
	int fd = open(options.file, O_RDONLY | O_CLOEXEC);
	struct stat about;

	if (fd < 0 || fstat(fd, &about))
		fail("%s", options.file);
	if (!options.readahead && posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM))
		fail("%s: posix_fadvise", options.file);
	counters_of(&counters, options.cgroup, about.st_dev);
	return fd;
}

/*
 * Whether all pages of a read are cached, without an access to them. struct cachestat_range has two
 * numbers, struct cachestat has five.
 */
static bool all_cached(int fd, uint64_t page)
{
	uint64_t range[2] = {page * PAGE_BYTES, options.read_pages * PAGE_BYTES}, found[5];

	if (syscall(SYS_cachestat, fd, range, found, 0))
		fail("cachestat");
	return found[0] == options.read_pages;
}

static void *play(void *argument)
{
	static _Thread_local char buffer[MAX_READ_PAGES * PAGE_BYTES];
	size_t bytes = options.read_pages * PAGE_BYTES;
	int fd = *(int *)argument;
	struct timespec pause = {.tv_nsec = (long)options.pause_us * 1000};
	uint64_t at;

	while ((at = atomic_fetch_add(&next_access, 1)) < stop_at && !atomic_load(&played)) {
		uint64_t page = pages[at % page_count];

		if (options.readahead && !all_cached(fd, page))
			atomic_fetch_add(&uncached_reads, 1);
		if (pread(fd, buffer, bytes, (off_t)(page * PAGE_BYTES)) != (ssize_t)bytes)
			fail("%s: page %llu", options.file, (unsigned long long)page);
		if (options.pause_us)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

/* A thread that prints lines by time until the stream ends, or the time of --seconds. */
static void *print_by_time(void *argument)
{
	struct timespec nap = {.tv_sec = (time_t)(options.every_ms / 1000),
			       .tv_nsec = (long)(options.every_ms % 1000) * 1000000};
	uint64_t end_ns =
		options.seconds ? monotonic_ns() + options.seconds * 1000000000u : UINT64_MAX;

	(void)argument;
	while (!atomic_load(&played)) {
		uint64_t at;

		nanosleep(&nap, NULL);
		at = atomic_load(&next_access);
		counters_print(&counters, "tick", at < stop_at ? at : stop_at, false);
		if (monotonic_ns() >= end_ns)
			atomic_store(&played, true);
	}
	return NULL;
}

static void play_until(const int *fds, uint64_t end)
{
	pthread_t threads[MAX_THREADS];

	stop_at = end;
	for (unsigned i = 1; i < options.threads; i++)
		if (pthread_create(&threads[i], NULL, play, (void *)&fds[i]))
			fail("pthread_create");
	play((void *)&fds[0]);
	for (unsigned i = 1; i < options.threads; i++)
		pthread_join(threads[i], NULL);
	/* Each thread took one access that it did not play. */
	atomic_fetch_sub(&next_access, options.threads);
}

/* Plays the accesses from `begin` to `end`, and prints a line after each step. */
static void play_steps(const int *fds, uint64_t begin, uint64_t end)
{
	for (uint64_t at = begin; options.step && end - at > options.step;) {
		at += options.step;
		play_until(fds, at);
		counters_print(&counters, "tick", atomic_load(&next_access), false);
	}
	play_until(fds, end);
}

static void play_measured(const int *fds)
{
	uint64_t rest = page_count - options.warmup;
	pthread_t timer;

	if (options.every_ms) {
		uint64_t end = options.seconds ? UINT64_MAX - MAX_THREADS : page_count;

		stop_at = end;
		if (pthread_create(&timer, NULL, print_by_time, NULL))
			fail("pthread_create");
		play_until(fds, end);
		atomic_store(&played, true);
		pthread_join(timer, NULL);
		return;
	}
	for (uint64_t tick = 1; !options.step && tick <= options.ticks; tick++) {
		play_until(fds, options.warmup + rest * tick / (options.ticks + 1));
		counters_print(&counters, "tick", atomic_load(&next_access), false);
	}
	play_steps(fds, atomic_load(&next_access), page_count);
}

int main(int argc, char **argv)
{
	int fds[MAX_THREADS];

	parse(argc, argv);
	load_stream();
	for (unsigned i = 0; i < options.threads; i++)
		fds[i] = open_file();
	counters_outside(&counters);
	/* Make the program's own memory resident before the cgroup is charged for it. */
	if (mlockall(MCL_CURRENT))
		fail("mlockall");
	if (options.cgroup[0])
		join_cgroup(options.cgroup);
	counters_print(&counters, "start", 0, true);
	play_steps(fds, 0, options.warmup);
	counters_print(&counters, "warm", options.warmup, true);
	play_measured(fds);
	counters_print(&counters, "end", atomic_load(&next_access), true);
	return 0;
}
