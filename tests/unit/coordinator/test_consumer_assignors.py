"""Laws of the assignors: all partitions, once each, to subscribers only; even; and nothing moves in vain."""

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.consumer.assign_range import assign_range
from ottla.coordinator.group.consumer.assign_types import Assignment, PartitionCounts, Subscriber
from ottla.coordinator.group.consumer.assign_uniform import assign_uniform
from ottla.coordinator.group.consumer.partitions import each_of, size

TOPICS = [UUID(int=number) for number in range(1, 6)]
A, B, C = TOPICS[:3]

counts_strategy = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in TOPICS})


def subscriber(member_id: str, *topics: UUID, instance_id: str | None = None) -> Subscriber:
    return Subscriber(member_id, instance_id, frozenset(topics), {})


def with_previous(subscribers: Sequence[Subscriber], previous: Assignment) -> list[Subscriber]:
    return [
        Subscriber(each.member_id, each.instance_id, each.topic_ids, previous.get(each.member_id, {}))
        for each in subscribers
    ]


def check_complete(
    subscribers: Sequence[Subscriber], counts: PartitionCounts, assignment: Assignment
) -> None:
    wanted = {topic for each in subscribers for topic in each.topic_ids}
    given_out = [pair for partitions in assignment.values() for pair in each_of(partitions)]
    assert sorted(given_out) == sorted((topic, index) for topic in wanted for index in range(counts[topic]))
    for each in subscribers:
        assert set(assignment.get(each.member_id, {})) <= each.topic_ids


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions are taken from somebody who stays."""
    return sum(
        len(set(each_of(before[member_id])) - set(each_of(after[member_id])))
        for member_id in before.keys() & after.keys()
    )


@st.composite
def groups(draw: st.DrawFn) -> list[Subscriber]:
    members = draw(
        st.lists(st.sampled_from([f"m{i}" for i in range(9)]), min_size=1, max_size=9, unique=True)
    )
    return [
        subscriber(
            member_id,
            *draw(st.lists(st.sampled_from(TOPICS), max_size=5, unique=True)),
            instance_id=draw(st.sampled_from([None, f"i-{member_id}"])),
        )
        for member_id in members
    ]


@given(groups(), counts_strategy)
def test_range_assigns_everything_once(subscribers: list[Subscriber], counts: dict[UUID, int]) -> None:
    check_complete(subscribers, counts, assign_range(subscribers, counts))


@given(groups(), counts_strategy)
def test_uniform_assigns_everything_once(subscribers: list[Subscriber], counts: dict[UUID, int]) -> None:
    check_complete(subscribers, counts, assign_uniform(subscribers, counts))


def test_range_gives_contiguous_ranges_and_the_first_get_what_does_not_divide() -> None:
    assignment = assign_range([subscriber("b", A), subscriber("a", A), subscriber("c", A)], {A: 7})
    assert assignment == {
        "a": {A: frozenset({0, 1, 2})},
        "b": {A: frozenset({3, 4})},
        "c": {A: frozenset({5, 6})},
    }


def test_range_gives_partitions_with_the_same_number_to_the_same_member() -> None:
    assignment = assign_range([subscriber("a", A, B), subscriber("b", A, B)], {A: 3, B: 3})
    assert assignment["a"][A] == assignment["a"][B] == frozenset({0, 1})
    assert assignment["b"][A] == assignment["b"][B] == frozenset({2})


def test_range_leaves_members_without_partitions_when_there_are_too_few() -> None:
    assignment = assign_range([subscriber("a", A), subscriber("b", A)], {A: 1})
    assert assignment == {"a": {A: frozenset({0})}, "b": {}}


def test_range_orders_static_members_by_instance_id_and_before_all_others() -> None:
    first = [subscriber("x", A, instance_id="i1"), subscriber("a", A), subscriber("b", A, instance_id="i2")]
    restarted = [
        subscriber("q", A, instance_id="i1"),
        subscriber("a", A),
        subscriber("p", A, instance_id="i2"),
    ]
    before, after = assign_range(first, {A: 6}), assign_range(restarted, {A: 6})
    assert before["x"] == after["q"] == {A: frozenset({0, 1})}
    assert before["b"] == after["p"] == {A: frozenset({2, 3})}
    assert before["a"] == after["a"]


@given(
    st.lists(st.sampled_from(TOPICS), min_size=1, unique=True),
    counts_strategy,
    st.lists(st.lists(st.sampled_from([f"m{i}" for i in range(8)]), min_size=1, unique=True), min_size=2),
)
@settings(max_examples=60)
def test_uniform_shares_of_equal_members_differ_by_one_and_no_more_moves_than_must(
    topics: list[UUID], counts: dict[UUID, int], memberships: list[list[str]]
) -> None:
    previous: Assignment = {}
    total = sum(counts[topic] for topic in topics)
    for members in memberships:
        subscribers = with_previous([subscriber(each, *topics) for each in members], previous)
        assignment = assign_uniform(subscribers, counts)
        check_complete(subscribers, counts, assignment)
        sizes = [size(partitions) for partitions in assignment.values()]
        assert max(sizes) - min(sizes) <= 1
        kept = sum(
            len(set(each_of(assignment[each.member_id])) & set(each_of(each.partitions)))
            for each in subscribers
        )
        assert kept == most_that_can_stay([size(each.partitions) for each in subscribers], total)
        previous = assignment


def most_that_can_stay(held: list[int], total: int) -> int:
    """With equal shares, the largest holders get the larger share: nothing better is possible."""
    share, remainder = divmod(total, len(held))
    by_size = sorted(held, reverse=True)
    return sum(min(each, share + (place < remainder)) for place, each in enumerate(by_size))


@given(groups(), counts_strategy)
def test_uniform_moves_nothing_if_nothing_changed(
    subscribers: list[Subscriber], counts: dict[UUID, int]
) -> None:
    before = assign_uniform(subscribers, counts)
    after = assign_uniform(with_previous(subscribers, before), counts)
    assert moved(before, after) == 0


@given(groups(), counts_strategy)
def test_uniform_leaves_no_single_move_that_would_even_things_out(
    subscribers: list[Subscriber], counts: dict[UUID, int]
) -> None:
    assignment = assign_uniform(subscribers, counts)
    load = {member_id: size(partitions) for member_id, partitions in assignment.items()}
    for giver in subscribers:
        for topic in assignment[giver.member_id]:
            for taker in subscribers:
                if topic in taker.topic_ids:
                    assert load[giver.member_id] - load[taker.member_id] <= 1


def test_uniform_takes_only_what_a_new_member_needs() -> None:
    before = assign_uniform([subscriber("a", A), subscriber("b", A)], {A: 10})
    members = [subscriber("a", A), subscriber("b", A), subscriber("c", A)]
    after = assign_uniform(with_previous(members, before), {A: 10})
    assert moved(before, after) == 3


def test_uniform_gives_the_partitions_of_one_who_left_to_the_others_and_moves_nothing_else() -> None:
    members = [subscriber("a", A), subscriber("b", A), subscriber("c", A)]
    before = assign_uniform(members, {A: 9})
    after = assign_uniform(with_previous(members[:2], before), {A: 9})
    assert moved(before, after) == 0


def test_uniform_takes_back_partitions_of_topics_that_a_member_does_not_want_any_more() -> None:
    before = assign_uniform([subscriber("a", A, B), subscriber("b", A, B)], {A: 4, B: 4})
    changed = with_previous([subscriber("a", B), subscriber("b", A, B)], before)
    after = assign_uniform(changed, {A: 4, B: 4})
    assert after["a"] == {B: frozenset(range(4))}
    assert after["b"] == {A: frozenset(range(4))}


def test_uniform_evens_out_over_members_with_different_subscriptions() -> None:
    members = [subscriber("a", A, B, C), subscriber("b", A), subscriber("c", B)]
    assignment = assign_uniform(members, {A: 4, B: 4, C: 2})
    assert {member_id: size(partitions) for member_id, partitions in assignment.items()} == {
        "a": 4,
        "b": 3,
        "c": 3,
    }


def test_no_members_get_no_partitions() -> None:
    assert assign_uniform([], {}) == {}
    assert assign_range([], {}) == {}


def test_a_large_group_is_assigned_within_a_fraction_of_a_second() -> None:
    counts = {UUID(int=number): 50 for number in range(1, 201)}
    topics = list(counts)
    alike = [subscriber(f"m{i:04}", *topics) for i in range(1000)]
    mixed = [subscriber(f"m{i:04}", *topics[i % 10 :: 10]) for i in range(1000)]
    for members in (alike, mixed):
        check_complete(members, counts, assign_uniform(members, counts))
        check_complete(members, counts, assign_range(members, counts))
