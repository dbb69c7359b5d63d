/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "counters.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES 16384

/* In memory that both processes share. */
struct counters_printer {
	sem_t asked, done;
	char at[16];
	uint64_t accesses, uncached_reads;
	bool whole;
};

void fail(const char *format, ...)
{
	int error = errno;
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, error ? ": %s\n" : "\n", strerror(error));
	exit(1);
}

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void counters_of(struct counters *counters, const char *cgroup, dev_t file_device)
{
	snprintf(counters->cgroup, sizeof(counters->cgroup), "%s", cgroup);
	snprintf(counters->device_stat, sizeof(counters->device_stat), "/sys/dev/block/%u:%u/stat",
		 major(file_device), minor(file_device));
}

void join_cgroup(const char *cgroup)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		fail("%s", path);
	close(fd);
}

/* Reads a file. The text is empty if it does not exist: not every kernel has every file. */
static void read_text(const char *path, char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = 0, got;

	while (fd >= 0 && length < FILE_BYTES - 1 &&
	       (got = read(fd, text + length, (size_t)(FILE_BYTES - 1 - length))) > 0)
		length += got;
	text[length] = 0;
	if (fd >= 0)
		close(fd);
}

/* Prints a "key value" file as a JSON object. Values that are not numbers become strings. */
static void print_flat(const struct counters *counters, const char *name)
{
	char path[320], text[FILE_BYTES];
	const char *separator = "";

	snprintf(path, sizeof(path), "%s/%s", counters->cgroup, name);
	read_text(path, text);
	if (!text[0])
		return;
	printf(",\"%s\":{", name);
	for (char *save, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *value = strchr(line, ' ');
		bool number;

		if (!value)
			continue;
		*value++ = 0;
		number = value[0] && strspn(value, "0123456789") == strlen(value);
		printf(number ? "%s\"%s\":%s" : "%s\"%s\":\"%s\"", separator, line, value);
		separator = ",";
	}
	putchar('}');
}

static uint64_t read_number(const char *directory, const char *name)
{
	char path[320], text[FILE_BYTES];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	read_text(path, text);
	return strtoull(text, NULL, 10);
}

/* Prints fields 1 and 3 of a block device's stat file: reads completed and sectors read. */
static void print_device(const struct counters *counters)
{
	char text[FILE_BYTES];
	unsigned long long reads = 0, merged = 0, sectors = 0;

	read_text(counters->device_stat, text);
	if (sscanf(text, "%llu %llu %llu", &reads, &merged, &sectors) == 3)
		printf(",\"block_reads\":%llu,\"block_sectors\":%llu", reads, sectors);
}

static void print_line(const struct counters *counters, const char *at, uint64_t accesses,
		       uint64_t uncached_reads, bool whole)
{
	printf("{\"at\":\"%s\",\"ns\":%llu,\"accesses\":%llu", at,
	       (unsigned long long)monotonic_ns(), (unsigned long long)accesses);
	print_device(counters);
	if (counters->uncached_reads)
		printf(",\"uncached_reads\":%llu", (unsigned long long)uncached_reads);
	if (counters->cgroup[0]) {
		printf(",\"memory.current\":%llu",
		       (unsigned long long)read_number(counters->cgroup, "memory.current"));
		print_flat(counters, "memory.cache_ext");
		if (whole) {
			print_flat(counters, "memory.stat");
			print_flat(counters, "cpu.stat");
		}
	}
	printf("}\n");
	fflush(stdout);
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore))
		if (errno != EINTR)
			fail("sem_wait");
}

static void print_when_asked(const struct counters *counters)
{
	struct counters_printer *printer = counters->printer;

	for (;;) {
		wait_for(&printer->asked);
		print_line(counters, printer->at, printer->accesses, printer->uncached_reads,
			   printer->whole);
		sem_post(&printer->done);
	}
}

void counters_outside(struct counters *counters)
{
	struct counters_printer *printer = mmap(NULL, sizeof(*printer), PROT_READ | PROT_WRITE,
						MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;

	if (printer == MAP_FAILED || sem_init(&printer->asked, 1, 0) ||
	    sem_init(&printer->done, 1, 0))
		fail("memory of two processes");
	counters->printer = printer;
	child = fork();
	if (child < 0)
		fail("fork");
	if (child)
		return;
	/* End with the parent, which may be killed: nobody else asks for lines. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(1);
	print_when_asked(counters);
}

void counters_print(const struct counters *counters, const char *at, uint64_t accesses, bool whole)
{
	struct counters_printer *printer = counters->printer;
	uint64_t uncached = counters->uncached_reads ? atomic_load(counters->uncached_reads) : 0;

	if (!printer) {
		print_line(counters, at, accesses, uncached, whole);
		return;
	}
	snprintf(printer->at, sizeof(printer->at), "%s", at);
	printer->accesses = accesses;
	printer->uncached_reads = uncached;
	printer->whole = whole;
	sem_post(&printer->asked);
	wait_for(&printer->done);
}
