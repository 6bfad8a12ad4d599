from ottla.api.support.request_times import BOUNDS_S, RequestTimes, quantile
from ottla.metrics.recent import Recent


def test_quantiles_forget_what_is_more_than_two_minutes_old():
    times = RequestTimes("Produce", 9)
    recent = Recent(lambda: [times])
    for _ in range(100):
        times.answered(4.0, 4.0)
    assert quantile(recent.recent_counts("Produce", times.buckets), 0.99) > 2.5
    recent.rotate()
    assert quantile(recent.recent_counts("Produce", times.buckets), 0.99) > 2.5
    recent.rotate()
    for _ in range(100):
        times.answered(0.00005, 0.00005)
    assert quantile(recent.recent_counts("Produce", times.buckets), 0.99) <= BOUNDS_S[0]


def test_both_kinds_of_fetches_are_fetches_too():
    of_followers = RequestTimes("FetchFollower", 17)
    of_consumers = RequestTimes("FetchConsumer", 17, of_followers)
    of_followers.answered(0.1, 0.1)
    of_consumers.answered(0.1, 0.1)
    recent = Recent(lambda: [of_consumers, of_followers])
    recent.rotate()
    recent.rotate()
    both = [one + other for one, other in zip(of_consumers.buckets, of_followers.buckets, strict=True)]
    assert sum(both) == 2
    assert sum(recent.recent_counts("Fetch", both)) == 0
