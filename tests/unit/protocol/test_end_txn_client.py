"""EndTxn by the short way: the same bytes as by the general one, and nothing but success is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.end_txn.v5 import EndTxnRequest, EndTxnResponse
from kio.schema.errors import ErrorCode

from ottla.client.producer.transaction_calls import VERSION, decode_ended, encode_end
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.schema.messages import request_encoder, response_encoder
from ottla.protocol.types import NO_THROTTLE

IDS, EPOCHS = st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1)


def answer(producer_id=7, producer_epoch=3, code=ErrorCode.none):
    response = EndTxnResponse(
        throttle_time=NO_THROTTLE, error_code=code, producer_id=producer_id, producer_epoch=producer_epoch
    )
    return response_encoder(ApiKey.END_TXN, VERSION, VERSION)(response)


@given(st.text(max_size=200), IDS, EPOCHS, st.booleans())
def test_a_request_is_what_the_general_way_makes_of_it(transactional_id, producer_id, epoch, commit):
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    general = request_encoder(ApiKey.END_TXN, VERSION, VERSION)(request)
    assert encode_end(transactional_id, producer_id, epoch, commit=commit) == general


@given(IDS, EPOCHS, st.binary(max_size=8))
def test_who_the_producer_is_from_now_on_is_read_wherever_the_answer_begins(producer_id, epoch, head):
    frame = memoryview(head + answer(producer_id, epoch))
    assert decode_ended(frame, len(head)) == (producer_id, epoch)


@pytest.mark.parametrize(
    "body",
    [
        answer(code=ErrorCode.concurrent_transactions),
        answer(code=ErrorCode.producer_fenced),
        answer(producer_id=-1, producer_epoch=-1),
        answer()[:-1],
        answer() + b"\0",
        answer()[:-1] + b"\1",
        b"",
    ],
)
def test_whatever_is_not_plain_success_is_left_to_the_general_way(body):
    assert decode_ended(memoryview(body), 0) is None
