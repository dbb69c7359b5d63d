// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first process of the guest. It mounts the file systems that programs expect, runs one command
 * and reports the exit of the command to the host. It is linked statically and started from the
 * host's own tree of files.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int control = -1;

static void send_line(const char *format, va_list arguments)
{
	char line[1024];
	int length = vsnprintf(line, sizeof(line) - 1, format, arguments);

	if (length >= (int)sizeof(line) - 1)
		length = sizeof(line) - 2;
	line[length++] = '\n';
	if (control < 0 || write(control, line, length) != length)
		fprintf(stderr, "cachepilot: %.*s", length, line);
}

void tell(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	send_line(format, arguments);
	va_end(arguments);
}

static void power_off(void)
{
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	send_line(format, arguments);
	va_end(arguments);
	power_off();
	__builtin_unreachable();
}

static char *slurp(const char *path, size_t *size_bytes)
{
	struct stat status;
	size_t got = 0;
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || fstat(file, &status) != 0)
		fail("failed %s: %s", path, strerror(errno));
	char *text = calloc(1, status.st_size + 1);
	while (text && got < (size_t)status.st_size) {
		ssize_t count = read(file, text + got, status.st_size - got);

		if (count <= 0)
			break;
		got += count;
	}
	close(file);
	*size_bytes = got;
	return text;
}

static void append(const char **list, int *count, const char *value)
{
	if (*count == MAX_ENTRIES)
		fail("failed more than %d arguments, variables or folders", MAX_ENTRIES);
	list[(*count)++] = value;
}

static void take_entry(struct plan *plan, const char *name, char *value)
{
	if (!strcmp(name, "cwd"))
		plan->cwd = value;
	else if (!strcmp(name, "filesystem"))
		plan->filesystem = value;
	else if (!strcmp(name, "share"))
		append(plan->shares, &plan->share_count, value);
	else if (!strcmp(name, "keep"))
		append(plan->keep, &plan->keep_count, value);
	else if (!strcmp(name, "argument"))
		append((const char **)plan->arguments, &plan->argument_count, value);
	else if (!strcmp(name, "environment"))
		append((const char **)plan->environment, &plan->environment_count, value);
	else if (!strcmp(name, "rows"))
		plan->rows = atoi(value);
	else if (!strcmp(name, "columns"))
		plan->columns = atoi(value);
	else if (!strcmp(name, "shell"))
		plan->shell = true;
	else
		fail("failed the guest does not know the order '%s'", name);
}

/* The file consists of entries NAME=VALUE, each followed by a zero byte. */
static void read_plan(struct plan *plan, const char *path)
{
	size_t size_bytes;
	char *text = slurp(path, &size_bytes);

	for (char *entry = text; entry < text + size_bytes; entry += strlen(entry) + 1) {
		char *equals = strchr(entry, '=');

		if (!equals)
			fail("failed %s: an entry without '='", path);
		*equals = 0;
		take_entry(plan, entry, equals + 1);
		entry = equals + 1;
	}
	if (plan->argument_count == 0 || !plan->cwd)
		fail("failed %s: names no command or no folder", path);
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (socket_ < 0 || ioctl(socket_, SIOCSIFFLAGS, &request) != 0)
		fprintf(stderr, "cachepilot: loopback: %s\n", strerror(errno));
	close(socket_);
}

int main(void)
{
	static struct plan plan;
	const char *orders = getenv("CACHEPILOT_RUN");

	control = open(PORT_CONTROL, O_RDWR | O_CLOEXEC);
	if (!orders)
		fail("failed the kernel's command line has no CACHEPILOT_RUN");
	read_plan(&plan, orders);
	mount_system(&plan);
	loopback_up();
	sethostname("cachepilot", strlen("cachepilot"));
	if (plan.shell)
		run_shell(&plan);
	else
		run_command(&plan);
	power_off();
}
