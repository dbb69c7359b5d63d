/* SPDX-License-Identifier: Apache-2.0 */
/* Two nested iterators with 64 * 10^12 steps in all. ITERATOR is the name of their type. */
#pragma once
#include "unbounded.h"

#define JOIN(type, function) type##_##function
#define CALL(type, function) JOIN(type, function)

struct ITERATOR {
	u64 opaque;
};

extern int CALL(ITERATOR, new)(struct ITERATOR *iterator, int start, int end) __ksym;
extern int *CALL(ITERATOR, next)(struct ITERATOR *iterator) __ksym;
extern void CALL(ITERATOR, destroy)(struct ITERATOR *iterator) __ksym;

static void misdeed(void)
{
	struct ITERATOR outer, inner;

	CALL(ITERATOR, new)(&outer, 0, MANY);
	while (CALL(ITERATOR, next)(&outer)) {
		CALL(ITERATOR, new)(&inner, 0, MANY);
		while (CALL(ITERATOR, next)(&inner))
			STATE->sum++;
		CALL(ITERATOR, destroy)(&inner);
	}
	CALL(ITERATOR, destroy)(&outer);
}
