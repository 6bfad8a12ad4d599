"""The hashes of a column of keys are those of the keys."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.producer.partitioners import positive_murmur2
from ottla.spark.sink.partitioning import LONG_KEY, positive_murmur2_of


@given(st.lists(st.binary(max_size=20) | st.binary(min_size=LONG_KEY - 4, max_size=LONG_KEY + 4)))
def test_each_key_has_the_hash_that_it_has_alone(keys: list[bytes]) -> None:
    array = pa.array([b"before", *keys], pa.binary()).slice(1)
    assert positive_murmur2_of(array).tolist() == [positive_murmur2(key) for key in keys]


def test_nulls_have_some_hash() -> None:
    found = positive_murmur2_of(pa.array([None, b"key", None], pa.binary()))
    assert len(found) == 3
    assert found[1] == positive_murmur2(b"key")
    assert len(positive_murmur2_of(pa.nulls(4, pa.binary()))) == 4
