// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first process of a kernel that has its drivers in modules. It loads the modules in /modules
 * in the order of /modules/order, mounts the root file system that the kernel's command line names,
 * and executes the init program that the command line names.
 */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ORDER "/modules/order"
#define ROOT "/root"
#define WAITS 500
#define WAIT_US 10000

static void __attribute__((noreturn)) stop(const char *what)
{
	fprintf(stderr, "initrd: %s: %s\n", what, strerror(errno));
	/* When init exits, the kernel writes out the console and then panics. */
	exit(1);
}

static void load(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "/modules/%s", name);
	int file = open(path, O_RDONLY | O_CLOEXEC);

	/* EEXIST: the module is loaded already. ENODEV: it does not support this CPU. */
	if (file < 0 ||
	    (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST && errno != ENODEV))
		stop(path);
	close(file);
}

static void load_all(void)
{
	char line[256];
	FILE *order = fopen(ORDER, "re");

	if (!order)
		stop(ORDER);
	while (fgets(line, sizeof(line), order)) {
		line[strcspn(line, "\n")] = 0;
		load(line);
	}
	fclose(order);
}

/* Returns the last value of NAME=VALUE among the words of the command line; NULL if none. */
static const char *word(char *line, const char *name)
{
	const char *value = NULL;
	size_t length = strlen(name);

	for (char *at = line; at; at = strchr(at, ' ')) {
		at += strspn(at, " ");
		if (!strncmp(at, name, length) && at[length] == '=')
			value = at + length + 1;
	}
	return value ? strndup(value, strcspn(value, " \n")) : NULL;
}

static const char *needed(char *line, const char *name)
{
	const char *value = word(line, name);

	errno = EINVAL;
	if (!value)
		stop(name);
	return value;
}

/* Devices appear asynchronously some time after their drivers were loaded. */
static void wait_for(const char *path)
{
	for (int i = 0; access(path, F_OK) != 0; i++) {
		if (i == WAITS)
			stop(path);
		usleep(WAIT_US);
	}
}

int main(void)
{
	static char line[8192];
	char *next[] = {NULL, NULL};

	mkdir("/proc", 0555);
	mkdir(ROOT, 0755);
	if (mount("proc", "/proc", "proc", 0, NULL) != 0)
		stop("/proc");
	int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	if (file < 0 || read(file, line, sizeof(line) - 1) <= 0)
		stop("/proc/cmdline");
	close(file);
	load_all();
	const char *root = needed(line, "root"), *type = needed(line, "rootfstype");
	const char *flags = word(line, "rootflags");
	next[0] = (char *)needed(line, "init");
	if (mount(root, ROOT, type, MS_RDONLY, flags) != 0)
		stop(root);
	if (mount("devtmpfs", ROOT "/dev", "devtmpfs", MS_NOSUID, "mode=755") != 0)
		stop(ROOT "/dev");
	wait_for(ROOT PORT_CONTROL);
	wait_for(ROOT PORT_OUTPUT);
	wait_for(ROOT PORT_ERRORS);
	umount2("/proc", MNT_DETACH);
	if (chdir(ROOT) != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0)
		stop(ROOT);
	execv(next[0], next);
	stop(next[0]);
}
