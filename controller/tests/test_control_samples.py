# SPDX-License-Identifier: Apache-2.0
"""Samples come back as they were put in."""

from hypothesis import given
from hypothesis import strategies as st

from cachepilot.control.counters import Sample
from cachepilot.control.samples import Samples

numbers = st.floats(0, 1e15)
samples = st.builds(
    Sample,
    time_s=numbers,
    elapsed_s=numbers,
    ops=numbers,
    miss_ratio=st.floats(0, 1),
    accesses=st.integers(0, 2**50),
    read_us=st.none() | numbers,
    device_read_us=st.none() | numbers,
    reads_per_call=numbers,
)


@given(st.lists(samples, max_size=9))
def test_the_last_few_are_kept_as_they_are(added: list[Sample]) -> None:
    kept = Samples(4)
    for one in added:
        kept.append(one)
    assert list(kept) == added[-4:]
