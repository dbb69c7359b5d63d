/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Integer types in the kernel's style, for the native build of a policy. */
#ifndef CACHE_EXT_NATIVE_TYPES_H
#define CACHE_EXT_NATIVE_TYPES_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

/* The headers of the C library may define these macros. */
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#undef __noinline
#define __noinline __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
