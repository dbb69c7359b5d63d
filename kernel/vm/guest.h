/* SPDX-License-Identifier: GPL-2.0-only */
/* What the first process of the guest is told, and its parts. */
#ifndef CACHEPILOT_GUEST_H
#define CACHEPILOT_GUEST_H

#include <stdbool.h>

#define MAX_ENTRIES 4096

/* Ports of the one virtio-serial device, by their number on the command line of QEMU. */
#define PORT_CONTROL "/dev/vport0p1"
#define PORT_OUTPUT "/dev/vport0p2"
#define PORT_ERRORS "/dev/vport0p3"
#define CONSOLE "/dev/hvc0"

/* The host's orders, read from the file that the kernel's command line names. */
struct plan {
	const char *cwd;
	const char *filesystem; /* of the scratch disk; NULL: not mounted */
	const char *shares[MAX_ENTRIES];
	const char *keep[MAX_ENTRIES]; /* folders to see though a tmpfs covers their place */
	char *arguments[MAX_ENTRIES + 1];
	char *environment[MAX_ENTRIES + 1];
	int share_count, keep_count, argument_count, environment_count;
	int rows, columns; /* of the terminal; 0 unless this is a shell */
	bool shell;
};

/* guest_init.c: tells the host in a line on the control port; fail() also ends the guest. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* guest_mounts.c */
void mount_system(const struct plan *plan);
void flush_shares(const struct plan *plan);

/* guest_run.c: both report the exit of the command to the host. */
void run_command(const struct plan *plan);
void run_shell(const struct plan *plan);

#endif
