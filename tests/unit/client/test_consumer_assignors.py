from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consumer.membership.assignors import ASSIGNORS, Member
from ottla.common.ids import TopicPartition
from ottla.protocol.consumer_protocol import (
    Subscription,
    decode_subscription,
    encode_subscription,
)


def members(*names, topics=("a",), owned=None, generation=1, assignor=None):
    found = {}
    for name in names:
        has = tuple((owned or {}).get(name, ()))
        data = ASSIGNORS[assignor].user_data(has, generation) if assignor else None
        found[name] = Member(name, Subscription(tuple(topics), data, has, generation if has else -1))
    return found


def assign(name, partitions, group):
    return {
        member: [f"{topic}{index}" for topic, index in found]
        for member, found in ASSIGNORS[name].assign(partitions, group).items()
    }


def test_range_gives_each_member_a_stretch_of_each_topic():
    assert assign("range", {"a": 3, "b": 3}, members("x", "y", topics=("a", "b"))) == {
        "x": ["a0", "a1", "b0", "b1"],
        "y": ["a2", "b2"],
    }


def test_round_robin_deals_one_after_the_other_and_passes_over_who_does_not_read_it():
    group = members("x", "y", topics=("a",)) | members("z", topics=("a", "b"))
    assert assign("roundrobin", {"a": 4, "b": 1}, group) == {
        "x": ["a0", "a3"],
        "y": ["a1"],
        "z": ["a2", "b0"],
    }


def test_static_members_come_first_in_the_order_of_their_names():
    group = members("zz", "aa")
    group["mm"] = Member("mm", Subscription(("a",)), "1")
    assert assign("range", {"a": 3}, group) == {"mm": ["a0"], "aa": ["a1"], "zz": ["a2"]}


def test_topics_that_do_not_exist_are_not_assigned():
    for name in ASSIGNORS:
        assert assign(name, {}, members("x")) == {"x": []}


def test_sticky_members_keep_what_they_have_when_one_joins_and_when_one_leaves():
    four = {"x": [TopicPartition("a", n) for n in range(4)]}
    joined = assign("sticky", {"a": 4}, members("x", "y", owned=four, assignor="sticky"))
    assert joined == {"x": ["a0", "a1"], "y": ["a2", "a3"]}
    two = {"x": [TopicPartition("a", 0), TopicPartition("a", 3)]}
    left = assign("sticky", {"a": 4}, members("x", "z", owned=two, assignor="sticky"))
    assert left == {"x": ["a0", "a3"], "z": ["a1", "a2"]}


def test_a_cooperative_partition_is_given_up_before_somebody_else_gets_it():
    four = {"x": [TopicPartition("a", n) for n in range(4)]}
    first = assign("cooperative-sticky", {"a": 4}, members("x", "y", owned=four))
    assert first == {"x": ["a0", "a1"], "y": []}
    two = {"x": [TopicPartition("a", 0), TopicPartition("a", 1)]}
    second = assign("cooperative-sticky", {"a": 4}, members("x", "y", owned=two, generation=2))
    assert second == {"x": ["a0", "a1"], "y": ["a2", "a3"]}


def test_of_two_who_claim_the_same_the_later_is_believed():
    group = members("x", owned={"x": [TopicPartition("a", 0)]}, generation=3)
    group |= members("y", owned={"y": [TopicPartition("a", 0)]}, generation=7)
    assert assign("cooperative-sticky", {"a": 1}, group)["x"] == []


topics = st.sampled_from(["a", "b", "c"])
claims = st.frozensets(st.builds(TopicPartition, topics, st.integers(0, 5)), max_size=6)
groups = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]),
    st.tuples(st.frozensets(topics, min_size=1), claims, st.integers(0, 3)),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(ASSIGNORS)), st.dictionaries(topics, st.integers(1, 6)), groups)
def test_every_partition_that_somebody_reads_goes_to_exactly_one_who_reads_it(name, partitions, drawn):
    assignor = ASSIGNORS[name]
    group = {
        member_id: Member(
            member_id,
            Subscription(tuple(names), assignor.user_data(owned, generation), tuple(owned), generation),
        )
        for member_id, (names, owned, generation) in drawn.items()
    }
    dealt = assignor.assign(partitions, group)
    counts = Counter(partition for found in dealt.values() for partition in found)
    assert set(dealt) == set(group)
    assert all(count == 1 for count in counts.values())
    for member_id, found in dealt.items():
        assert {each.topic for each in found} <= set(group[member_id].subscription.topics)
    read = {name for names, _, _ in drawn.values() for name in names}
    every = {TopicPartition(topic, n) for topic in partitions.keys() & read for n in range(partitions[topic])}
    if name == "cooperative-sticky":
        claimed = {partition for _, owned, _ in drawn.values() for partition in owned}
        assert every - claimed <= set(counts) <= every
    else:
        assert set(counts) == every


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 7), st.data())
def test_sticky_is_even_and_moves_nothing_that_need_not_move(partitions, size, data):
    names = [f"m{n}" for n in range(size)]
    owner = data.draw(st.lists(st.sampled_from([*names, None]), min_size=partitions, max_size=partitions))
    owned = {name: [TopicPartition("a", n) for n, who in enumerate(owner) if who == name] for name in names}
    dealt = ASSIGNORS["sticky"].assign({"a": partitions}, members(*names, owned=owned, assignor="sticky"))
    sizes = [len(found) for found in dealt.values()]
    assert max(sizes) - min(sizes) <= 1
    least, more = divmod(partitions, size)
    had = sorted((len(owned[name]) for name in names), reverse=True)
    could_stay = sum(min(count, least + (place < more)) for place, count in enumerate(had))
    stayed = sum(len(set(dealt[name]) & set(owned[name])) for name in names)
    assert stayed == could_stay


subscriptions = st.builds(
    Subscription,
    st.lists(st.text("abc", max_size=4), unique=True).map(lambda names: tuple(sorted(names))),
    st.none() | st.binary(max_size=9),
    st.lists(st.builds(TopicPartition, topics, st.integers(0, 9)), unique=True).map(
        lambda found: tuple(sorted(found))
    ),
    st.integers(-1, 99),
    st.none() | st.text("xy", max_size=3),
)


@given(subscriptions)
def test_subscriptions_survive_the_wire(subscription):
    assert decode_subscription(encode_subscription(subscription)) == subscription
