#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Functions for the guest in this experiment. To be sourced after experiments/kernel_guest/guest.sh.

DISK=/mnt/memory_disk
ELSEWHERE=/sys/fs/cgroup/elsewhere

# Makes a disk in memory whose requests take 100 microseconds of the guest's clock. With QEMU's
# -icount every run is then interrupted at the same instructions.
make_memory_disk() {
	local mebibytes=$1 null=/sys/kernel/config/nullb/bench
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	mkdir -p "$null" "$DISK"
	echo "$mebibytes" >$null/size
	echo 4096 >$null/blocksize
	echo 1 >$null/memory_backed
	echo 1 >$null/irqmode
	echo 100000 >$null/completion_nsec
	echo 1 >$null/power
	mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0,nodiscard /dev/bench
	mount -o noatime /dev/bench "$DISK"
}

# copy_tools COUNTER: copies fio with its libraries, and the program that counts, to memory. Waiting
# for a file of the host would take an uncertain number of timer interrupts.
TOOLS=/run/tools
copy_tools() {
	local counter=$1 fio
	fio=$(command -v fio)
	mkdir -p "$TOOLS"
	cp "$counter" "$TOOLS/count_cost"
	cp "$fio" "$TOOLS/fio"
	ldd "$fio" | grep -o '/[^ ]*' | xargs -I{} cp -L {} "$TOOLS/"
}

# read_pages COUNT SEED: runs 8 jobs of COUNT reads each in the cgroup, and prints their cost.
read_pages() {
	"$TOOLS/count_cost" "$BENCH" /sys/block/bench/stat \
		"$TOOLS/ld-linux-x86-64.so.2" --library-path "$TOOLS" "$TOOLS/fio" \
		--name=read --filename="$DISK/file" --rw=randread --bs=4k --ioengine=psync \
		--thread --numjobs=8 --io_size="$(($1 * 4096))" --size="$FILE_BYTES" \
		--randseed="$2" --invalidate=0 --norandommap --allrandrepeat=1 --gtod_reduce=1 --group_reporting \
		--output="$TOOLS/log"
}

# settle COUNT SEED: reads the whole file once, so that the cgroup is full, and then makes the same
# kind of reads as those that are measured.
settle() {
	"$TOOLS/count_cost" "$BENCH" /sys/block/bench/stat /usr/bin/cat "$DISK/file" >&2
	read_pages "$1" "$2" >&2
}

# measure COUNT REPEAT: prints the cost of a short run, and of one that reads COUNT more pages in
# each job.
measure() {
	local count=$1 seed=$((3 * $2))
	local brief=$((count / 4))
	settle "$count" "$seed"
	echo "[$(read_pages "$brief" $((seed + 1))),$(read_pages "$((brief + count))" $((seed + 2)))]"
}

# Marks a point at which where.py reads how often each function of the kernel has run.
mark() {
	echo "$1" >/proc/sys/kernel/domainname
}

# profile COUNT: makes the same runs as `measure`, with marks around them.
profile() {
	local count=$1
	local brief=$((count / 4))
	settle "$count" 0
	mark before
	read_pages "$brief" 1
	mark between
	read_pages "$((brief + count))" 2
	mark after
}

# attach_noop OBJECTS: attaches the no-op policy. The policy proposes nothing, so the watchdog is
# first set to accept that.
attach_noop() {
	echo 4294967295 >/sys/module/cache_ext/parameters/max_short_requests
	"$AGENT" policy attach --cgroup "$BENCH" --policy noop --policies "$1" >&2
}

# attach_elsewhere OBJECTS: attaches the no-op policy to a cgroup in which nothing runs.
attach_elsewhere() {
	mkdir -p "$ELSEWHERE"
	"$AGENT" policy attach --cgroup "$ELSEWHERE" --policy noop --policies "$1" >&2
}

# Detaches the policy that a step attached elsewhere, before the next step.
detach_elsewhere() {
	[ ! -d "$ELSEWHERE" ] || "$AGENT" policy detach --cgroup "$ELSEWHERE" >&2 || true
}
