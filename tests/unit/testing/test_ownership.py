from ottla.testing.ownership import Overlap, Ownership

A, B = ("orders", 0), ("orders", 1)


def history(*members):
    ownership = Ownership()
    for member in members:
        ownership.join(member)
    return ownership


def test_partitions_that_change_hands_one_after_the_other_do_not_overlap():
    ownership = history("one", "two")
    ownership.take(1, "one", [A, B])
    ownership.give_up(2, "one", [A])
    ownership.take(3, "two", [A])
    assert list(ownership.overlaps()) == []
    assert ownership.now == {"one": {B}, "two": {A}}


def test_a_partition_with_two_owners_is_found_even_if_it_is_given_up_later():
    ownership = history("one", "two")
    ownership.take(1, "one", [A])
    ownership.take(2, "two", [A, B])
    ownership.give_up(3, "one", [A])
    (overlap,) = ownership.overlaps()
    assert overlap == Overlap(2, A, "one", "two")
    assert str(overlap) == "('orders', 0) was taken by two at 2.000 s while one had it"


def test_a_member_that_leaves_owns_nothing_any_more():
    ownership = history("one", "two")
    ownership.take(1, "one", [A])
    ownership.leave(2, "one")
    ownership.take(3, "two", [A])
    assert list(ownership.overlaps()) == []
    assert list(ownership.now) == ["two"]


def test_shared_means_all_of_it_evenly_by_everybody():
    ownership = history("one", "two")
    assert not ownership.is_shared(2)
    ownership.take(1, "one", [A, B])
    assert not ownership.is_shared(2)  # the other has nothing
    ownership.give_up(2, "one", [B])
    assert not ownership.is_shared(2)  # one has no owner
    ownership.take(3, "two", [B])
    assert ownership.is_shared(2)
    assert not Ownership().is_shared(0)
