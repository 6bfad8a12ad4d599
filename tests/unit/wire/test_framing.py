import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.framing import SCRATCH_BYTES, BadFrame, ResponseReader


def framed(body):
    return len(body).to_bytes(4, "big") + body


def read(reader, data, chunk):
    """Feed `data` as a socket would: no more at a time than there is room for, or than has come."""
    frames, at = [], 0
    while at < len(data):
        buffer = reader.buffer()
        count = min(len(buffer), len(data) - at, chunk)
        buffer[:count] = data[at : at + count]
        at += count
        frames += [bytes(each) for each in reader.received(count)]
    return frames


@given(st.lists(st.integers(4, 3 * SCRATCH_BYTES), max_size=6), st.integers(1, 2 * SCRATCH_BYTES))
@settings(max_examples=50, deadline=None)
def test_frames_come_out_as_they_went_in_however_they_are_cut(sizes, chunk):
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    chunk = max(chunk, sum(sizes) // 1_000 + 1)
    assert read(ResponseReader(), b"".join(map(framed, bodies)), chunk) == bodies


def test_a_large_frame_is_read_into_a_buffer_of_its_own():
    reader = ResponseReader()
    assert read(reader, framed(bytes(1_000_000))[:5_000], 5_000) == []
    assert len(reader.buffer()) == 1_000_000 - 4_996


@pytest.mark.parametrize("size", [-1, 0, 3, 2**31 - 1])
def test_a_size_that_no_broker_sends_is_refused(size):
    reader = ResponseReader()
    with pytest.raises(BadFrame, match=f"it sent a frame of {size} bytes"):
        read(reader, size.to_bytes(4, "big", signed=True) + b"\0\0\0\0", 100)
