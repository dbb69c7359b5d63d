// SPDX-License-Identifier: GPL-2.0-only
/* All mounts of the guest, over the host's tree, which the kernel mounted read-only. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SCRATCH "/mnt/scratch"
#define SHARE_OPTIONS "trans=virtio,version=9p2000.L,cache=mmap,msize=131072"

static const char *const covered[] = {"/tmp", "/run", "/mnt", "/var/tmp"};

struct place {
	const char *type, *path, *options;
	unsigned long flags;
};

static const struct place places[] = {
	{"proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"cgroup2", "/sys/fs/cgroup", "memory_recursiveprot", MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"bpf", "/sys/fs/bpf", "mode=700", MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"debugfs", "/sys/kernel/debug", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
	{"tracefs", "/sys/kernel/tracing", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
};

static void mount_or_fail(const char *source, const char *path, const char *type,
			  unsigned long flags, const char *options)
{
	if (mount(source, path, type, flags, options) != 0)
		fail("failed mounting %s on %s: %s", type, path, strerror(errno));
}

static void make_folders(const char *path)
{
	char part[4096];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(part, 0755);
		*slash = '/';
	}
	mkdir(part, 0755);
}

static void write_text(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		fprintf(stderr, "cachepilot: %s: %s\n", path, strerror(errno));
	close(file);
}

/* Mounts empty folders over those that programs write to. Folders in `keep` stay visible. */
static void cover_folders(const struct plan *plan)
{
	int kept[MAX_ENTRIES];
	char link[64];

	for (int i = 0; i < plan->keep_count; i++)
		kept[i] = open(plan->keep[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sizeof(covered) / sizeof(covered[0]); i++)
		mount_or_fail("tmpfs", covered[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	for (int i = 0; i < plan->keep_count; i++) {
		if (kept[i] < 0)
			continue;
		make_folders(plan->keep[i]);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", kept[i]);
		mount_or_fail(link, plan->keep[i], "bind", MS_BIND, NULL);
		close(kept[i]);
	}
}

static void mount_shares(const struct plan *plan)
{
	char tag[32];

	for (int i = 0; i < plan->share_count; i++) {
		snprintf(tag, sizeof(tag), "share%d", i);
		make_folders(plan->shares[i]);
		mount_or_fail(tag, plan->shares[i], "9p", 0, SHARE_OPTIONS);
	}
}

static void mount_devices(void)
{
	/* EBUSY: the kernel mounted devtmpfs before it started this process. */
	if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=755") != 0 && errno != EBUSY)
		fail("failed mounting devtmpfs on /dev: %s", strerror(errno));
	mkdir("/dev/pts", 0755);
	mkdir("/dev/shm", 01777);
	mount_or_fail("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		      "mode=620,gid=5,ptmxmode=666");
	mount_or_fail("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	if (symlink("/proc/self/fd", "/dev/fd") != 0 ||
	    symlink("/proc/self/fd/0", "/dev/stdin") != 0 ||
	    symlink("/proc/self/fd/1", "/dev/stdout") != 0 ||
	    symlink("/proc/self/fd/2", "/dev/stderr") != 0)
		fprintf(stderr, "cachepilot: links in /dev: %s\n", strerror(errno));
}

void mount_system(const struct plan *plan)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		mount_or_fail(places[i].type, places[i].path, places[i].type, places[i].flags,
			      places[i].options);
	write_text("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset +io +memory +pids");
	mount_devices();
	cover_folders(plan);
	mount_shares(plan);
	make_folders(SCRATCH);
	if (plan->filesystem)
		mount_or_fail("/dev/vda", SCRATCH, plan->filesystem, MS_NOATIME, NULL);
}

void flush_shares(const struct plan *plan)
{
	for (int i = 0; i < plan->share_count; i++) {
		int folder = open(plan->shares[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (folder >= 0) {
			syncfs(folder);
			close(folder);
		}
	}
}
