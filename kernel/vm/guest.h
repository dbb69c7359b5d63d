/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of the guest's first process, and the orders that it gets from the host. */
#ifndef CACHEPILOT_GUEST_H
#define CACHEPILOT_GUEST_H

#include <stdbool.h>

#define MAX_ENTRIES 4096

/* Ports of the virtio-serial device, in the order of their numbers on QEMU's command line. */
#define PORT_CONTROL "/dev/vport0p1"
#define PORT_OUTPUT "/dev/vport0p2"
#define PORT_ERRORS "/dev/vport0p3"
#define CONSOLE "/dev/hvc0"

/* The host's orders, which are read from the file that the kernel's command line names. */
struct plan {
	const char *cwd;
	const char *filesystem; /* of the scratch disk; NULL: do not mount it */
	const char *shares[MAX_ENTRIES];
	const char *keep[MAX_ENTRIES]; /* folders that stay visible where a tmpfs covers them */
	char *arguments[MAX_ENTRIES + 1];
	char *environment[MAX_ENTRIES + 1];
	int share_count, keep_count, argument_count, environment_count;
	int rows, columns; /* of the terminal; 0 if there is no shell */
	bool shell;
};

/* guest_init.c: both send the host a line on the control port; fail() also ends the guest. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* guest_mounts.c */
void mount_system(const struct plan *plan);
void flush_shares(const struct plan *plan);

/* guest_run.c: both run the command and report its exit to the host. */
void run_command(const struct plan *plan);
void run_shell(const struct plan *plan);

#endif
