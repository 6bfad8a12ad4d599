from kio.schema.errors import ErrorCode

from ottla.client.errors import error_for, raise_for
from ottla.protocol.errors import ERRORS, KafkaError, TopicAlreadyExists


def test_a_code_that_ottla_declares_becomes_its_class():
    error = error_for(ErrorCode.topic_already_exists, "orders is there")
    assert type(error) is TopicAlreadyExists
    assert str(error) == "orders is there"


def test_a_code_that_ottla_never_raises_keeps_its_name_and_code():
    error = error_for(ErrorCode.feature_update_failed)
    assert type(error).__name__ == "FeatureUpdateFailed"
    assert error.code is ErrorCode.feature_update_failed


def test_making_such_a_class_leaves_the_table_of_our_own_errors_alone():
    error_for(ErrorCode.snapshot_not_found)
    assert ErrorCode.snapshot_not_found not in ERRORS


def test_a_code_of_the_future_is_still_an_error():
    assert isinstance(error_for(31_000, "?"), KafkaError)


def test_no_error_raises_nothing():
    assert raise_for(ErrorCode.none) is None
