// SPDX-License-Identifier: GPL-2.0-only
/* Runs the guest's command, either with its output to two ports, or on a terminal. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* Copies one output stream of the command from a pipe to a port of the host. */
struct relay {
	int pipe, port;
	unsigned long long bytes;
};

static void become_command(const struct plan *plan)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(plan->cwd) != 0) {
		fprintf(stderr, "cachepilot: %s: %s\n", plan->cwd, strerror(errno));
		_exit(126);
	}
	clearenv();
	for (int i = 0; i < plan->environment_count; i++)
		putenv(plan->environment[i]);
	execvp(plan->arguments[0], plan->arguments);
	fprintf(stderr, "cachepilot: %s: %s\n", plan->arguments[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static int open_or_fail(const char *path, int flags)
{
	int file = open(path, flags | O_CLOEXEC);

	if (file < 0)
		fail("failed %s: %s", path, strerror(errno));
	return file;
}

static void write_all(int file, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t count = write(file, data, size);

		if (count < 0 && errno != EINTR)
			fail("failed writing to a port: %s", strerror(errno));
		if (count > 0) {
			data += count;
			size -= count;
		}
	}
}

/* Copies the data in the pipe; returns false at its end. The pipe does not block. */
static bool forward(struct relay *relay)
{
	static char buffer[65536];
	ssize_t count = read(relay->pipe, buffer, sizeof(buffer));

	if (count <= 0)
		return count < 0 && (errno == EAGAIN || errno == EINTR);
	write_all(relay->port, buffer, count);
	relay->bytes += count;
	return true;
}

static void drain(struct relay *relay)
{
	unsigned long long before;

	do {
		before = relay->bytes;
	} while (forward(relay) && relay->bytes > before);
}

/* Reaps every process that ended. Returns true if the command is among them. */
static bool reap(pid_t command, int *status, struct rusage *usage)
{
	struct rusage each;
	bool ended = false;
	int code;
	pid_t pid;

	while ((pid = wait4(-1, &code, WNOHANG, &each)) > 0) {
		if (pid != command)
			continue;
		ended = true;
		*status = code;
		*usage = each;
	}
	return ended;
}

static void report_exit(int status, const struct rusage *usage, const struct relay *relays)
{
	int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	unsigned long long cpu_us = 1000000ULL * (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
				    usage->ru_utime.tv_usec + usage->ru_stime.tv_usec;

	tell("exit %d %llu %llu %llu", code, relays[0].bytes, relays[1].bytes, cpu_us);
}

static int watch_children(void)
{
	sigset_t children;

	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, NULL);
	return signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
}

static pid_t start_command(const struct plan *plan, struct relay *relays)
{
	int out[2], err[2];

	if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
		fail("failed making a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid < 0)
		fail("failed starting a process: %s", strerror(errno));
	if (pid == 0) {
		setsid();
		dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		become_command(plan);
	}
	close(out[1]);
	close(err[1]);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	relays[0].pipe = out[0];
	relays[1].pipe = err[0];
	return pid;
}

void run_command(const struct plan *plan)
{
	struct relay relays[2] = {
		{.port = open_or_fail(PORT_OUTPUT, O_WRONLY)},
		{.port = open_or_fail(PORT_ERRORS, O_WRONLY)},
	};
	int signals = watch_children(), status = 0;
	struct signalfd_siginfo ignored;
	struct rusage usage;

	tell("start");
	pid_t command = start_command(plan, relays);
	struct pollfd watched[3] = {
		{.fd = relays[0].pipe, .events = POLLIN},
		{.fd = relays[1].pipe, .events = POLLIN},
		{.fd = signals, .events = POLLIN},
	};
	for (;;) {
		poll(watched, 3, -1);
		for (int i = 0; i < 2; i++)
			if (watched[i].revents && !forward(&relays[i]))
				watched[i].fd = -1;
		if (watched[2].revents && read(signals, &ignored, sizeof(ignored)) > 0 &&
		    reap(command, &status, &usage))
			break;
	}
	drain(&relays[0]);
	drain(&relays[1]);
	flush_shares(plan);
	report_exit(status, &usage, relays);
	/* The host ends the machine when it has received every byte. */
	for (;;)
		pause();
}

void run_shell(const struct plan *plan)
{
	struct winsize size = {.ws_row = plan->rows, .ws_col = plan->columns};
	struct relay none[2] = {{0}};
	struct rusage usage;
	int status = 0;
	pid_t pid;

	tell("start");
	pid_t shell = fork();
	if (shell == 0) {
		setsid();
		int terminal = open_or_fail(CONSOLE, O_RDWR);
		ioctl(terminal, TIOCSWINSZ, &size);
		ioctl(terminal, TIOCSCTTY, 0);
		for (int stream = 0; stream < 3; stream++)
			dup2(terminal, stream);
		become_command(plan);
	}
	do {
		pid = wait4(-1, &status, 0, &usage);
	} while (pid != shell && (pid > 0 || errno == EINTR));
	flush_shares(plan);
	report_exit(status, &usage, none);
}
