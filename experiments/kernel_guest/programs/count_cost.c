/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command in a cgroup and prints its cost: nanoseconds in which the CPU was not idle (one
 * per instruction with QEMU's -icount), CPU time of the cgroup, and reads of a disk.
 *
 *   count_cost CGROUP DISK_STAT COMMAND...
 *
 * The command's output is discarded. Writing it would wait for the host, and while the guest waits,
 * timers expire that have nothing to do with the command.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"

#define TEXT_BYTES (1 << 20)

struct cost {
	uint64_t busy_ns;
	uint64_t cpu_us;
	uint64_t block_reads;
};

static char text[TEXT_BYTES];

static void read_text(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t got;

	if (fd < 0)
		fail("%s", path);
	while ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = 0;
	close(fd);
}

/* Returns the sum of the numbers that follow `key` in `text`, which read_text() filled last. */
static uint64_t sum_after(const char *key)
{
	uint64_t sum = 0;

	for (const char *at = text; (at = strstr(at, key)); at += strlen(key)) {
		const char *digits = at + strlen(key);

		sum += strtoull(digits + strspn(digits, " :"), NULL, 10);
	}
	return sum;
}

static struct cost cost_so_far(const char *cgroup, const char *disk_stat)
{
	char path[320];
	struct cost cost;

	snprintf(path, sizeof(path), "%s/cpu.stat", cgroup);
	read_text(path);
	cost.cpu_us = sum_after("usage_usec");
	read_text(disk_stat);
	cost.block_reads = strtoull(text, NULL, 10);
	read_text("/proc/timer_list");
	cost.busy_ns = sum_after("now at") - sum_after(".idle_sleeptime");
	return cost;
}

static void run(const char *cgroup, char **command)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		fail("fork");
	if (!child) {
		int null = open("/dev/null", O_WRONLY);

		join_cgroup(cgroup);
		dup2(null, STDOUT_FILENO);
		execv(command[0], command);
		fail("%s", command[0]);
	}
	errno = 0;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status))
		fail("%s: status %d", command[0], status);
}

int main(int argc, char **argv)
{
	struct cost before, after;

	if (argc < 4) {
		fprintf(stderr, "usage: count_cost CGROUP DISK_STAT COMMAND...\n");
		return 2;
	}
	if (mlockall(MCL_CURRENT))
		fail("mlockall");
	before = cost_so_far(argv[1], argv[2]);
	run(argv[1], argv + 3);
	after = cost_so_far(argv[1], argv[2]);
	printf("{\"busy_ns\":%llu,\"cpu_us\":%llu,\"block_reads\":%llu}\n",
	       (unsigned long long)(after.busy_ns - before.busy_ns),
	       (unsigned long long)(after.cpu_us - before.cpu_us),
	       (unsigned long long)(after.block_reads - before.block_reads));
	return 0;
}
