/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads pages of a cached file with several threads at once, and prints the counts of the kernel's
 * lock_stat during the reads. For each number of threads it prints a line of JSON, then
 * /proc/lock_stat, then a line "end". The counts do not contain the start of the threads and the
 * first reads of the file: they are reset while all threads wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "input.h"

#define PAGE_BYTES 4096
#define MAX_THREADS 16
#define LOCK_STAT "/proc/lock_stat"
#define PASSES 3 /* over the whole file before the measurement */

static const char *path;
static uint64_t pages;
static uint64_t reads_per_thread = 2000;
static pthread_barrier_t ready, start, done, over;

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"file", required_argument, NULL, 'f'},
		{"reads", required_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};

	for (int key; (key = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		if (key == 'f')
			path = optarg;
		else if (key == 'r')
			reads_per_thread = option_number(optarg, "reads", UINT32_MAX);
		else
			exit(1);
	}
	errno = 0;
	if (!path || optind >= argc)
		fail("hit_threads: --file, and numbers of threads, are needed");
}

static int open_file(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat about;

	if (fd < 0 || fstat(fd, &about) || posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM))
		fail("%s", path);
	pages = (uint64_t)about.st_size / PAGE_BYTES;
	return fd;
}

static void read_page(int fd, uint64_t page)
{
	static _Thread_local char buffer[PAGE_BYTES];

	if (pread(fd, buffer, PAGE_BYTES, (off_t)(page * PAGE_BYTES)) != PAGE_BYTES)
		fail("%s: page %llu", path, (unsigned long long)page);
}

/* Xorshift64 (Marsaglia 2003). */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *hit(void *argument)
{
	uint64_t state = 0x9e3779b97f4a7c15u * (1 + (uint64_t)(uintptr_t)argument);
	int fd = open_file();

	/* Take the faults of the thread's first accesses before the measurement. */
	read_page(fd, draw(&state) % pages);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&start);
	for (uint64_t i = 0; i < reads_per_thread; i++)
		read_page(fd, draw(&state) % pages);
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&over);
	close(fd);
	return NULL;
}

static void reset_counts(int fd)
{
	if (write(fd, "0", 1) != 1)
		fail("%s", LOCK_STAT);
}

static char *read_counts(int fd)
{
	size_t room = 4u << 20, length = 0;
	char *text = malloc(room);
	ssize_t got = 1;

	if (!text)
		fail("malloc");
	while (got > 0 && length + 1 < room) {
		got = pread(fd, text + length, room - 1 - length, (off_t)length);
		length += got > 0 ? (size_t)got : 0;
	}
	text[length] = 0;
	return text;
}

static void measure(unsigned threads)
{
	pthread_t all[MAX_THREADS];
	int counts = open(LOCK_STAT, O_RDWR | O_CLOEXEC);
	uint64_t began_ns, took_ns;
	char *text;

	if (counts < 0)
		fail("%s", LOCK_STAT);
	pthread_barrier_init(&ready, NULL, threads + 1);
	pthread_barrier_init(&start, NULL, threads + 1);
	pthread_barrier_init(&done, NULL, threads + 1);
	pthread_barrier_init(&over, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, hit, (void *)(uintptr_t)i))
			fail("pthread_create");
	pthread_barrier_wait(&ready);
	reset_counts(counts);
	began_ns = monotonic_ns();
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&done);
	took_ns = monotonic_ns() - began_ns;
	close(counts);
	/* The kernel takes the counts that it shows when the file is opened, so open it again. */
	counts = open(LOCK_STAT, O_RDONLY | O_CLOEXEC);
	text = read_counts(counts);
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	close(counts);
	printf("{\"threads\":%u,\"reads\":%llu,\"ns\":%llu}\n%send\n", threads,
	       (unsigned long long)(threads * reads_per_thread), (unsigned long long)took_ns, text);
	free(text);
}

int main(int argc, char **argv)
{
	int fd;

	parse(argc, argv);
	fd = open_file();
	if (mlockall(MCL_CURRENT))
		fail("mlockall");
	for (int pass = 0; pass < PASSES; pass++)
		for (uint64_t page = 0; page < pages; page++)
			read_page(fd, page);
	for (int i = optind; i < argc; i++) {
		uint64_t threads = option_number(argv[i], "threads", MAX_THREADS);

		if (threads)
			measure((unsigned)threads);
	}
	return 0;
}
