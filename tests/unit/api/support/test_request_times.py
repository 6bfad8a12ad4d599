import pytest

from ottla.api.support.request_times import BOUNDS_S, RequestTimes, quantile


def test_every_request_is_in_one_bucket():
    times = RequestTimes("Produce", 9)
    for seconds in (0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.01, 0.3, 1_000.0):
        times.answered(seconds, seconds)
    assert times.count == 5
    assert times.buckets[0] == 2
    assert times.buckets[-1] == 1


def test_the_time_on_the_loop_and_the_time_of_waiting_make_the_total():
    times = RequestTimes("Produce", 9)
    times.answered(0.01, 0.5)
    times.answered(0.02, 0.02)
    assert times.local_s == pytest.approx(0.03)
    assert times.waited_s == pytest.approx(0.49)
    assert times.total_s == pytest.approx(0.52)


@pytest.mark.parametrize(("share", "seconds"), [(0.5, 0.0002), (0.99, 0.00025), (1.0, 0.00025)])
def test_a_quantile_lies_within_the_bucket_of_its_request(share, seconds):
    times = RequestTimes("Produce", 9)
    for _ in range(100):
        times.answered(0.0002, 0.0002)
    assert BOUNDS_S[0] <= quantile(times.buckets, share) <= seconds


def test_without_requests_every_quantile_is_0():
    assert quantile(RequestTimes("Produce", 9).buckets, 0.99) == 0
