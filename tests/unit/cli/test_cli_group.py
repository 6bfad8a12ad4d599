import json
import re
import time

import pytest
from kio.schema.errors import ErrorCode
from tests.unit.client.fake_groups import FakeGroup, FakeMember

from ottla.cli.group.view import duration
from ottla.cli.support.partition_choice import parse_choice
from ottla.common.ids import TopicPartition
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.records.records import Record, encode_batch

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
MINUTE_MS = 60_000


@pytest.fixture
def orders(peer):
    """A topic with ten records in each of two partitions, one a minute, the last of them new."""
    topic = peer.add_topic("orders", 2)
    now = int(time.time() * 1000)
    for partition in topic.partitions:
        for age in reversed(range(10)):
            partition.append(encode_batch([Record(0, now - age * MINUTE_MS, None, b"x", ())]))
    return now


@pytest.fixture
def billing(peer, orders):
    """A group that stopped in the middle."""
    group = peer.groups["billing"] = FakeGroup(offsets={ZERO: (4, ""), ONE: (10, "done")})
    return group


def offsets(peer, name="billing"):
    return {each: offset for each, (offset, _) in peer.groups[name].offsets.items()}


# list


def test_list_shows_groups_with_type_and_state(ottla, peer):
    peer.groups = {"b": FakeGroup("consumer", members=[FakeMember("m", [])]), "a": FakeGroup()}
    assert [line.split() for line in ottla("group", "list", "--no-lag").lines] == [
        ["group", "type", "state"],
        ["a", "classic", "Empty"],
        ["b", "consumer", "Stable"],
    ]
    only = json.loads(ottla("group", "list", "--no-lag", "--state", "Stable", "--format", "json").out)
    assert only == [{"group": "b", "type": "consumer", "protocol_type": "consumer", "state": "Stable"}]


def test_list_shows_members_and_lag(ottla, peer, billing):
    peer.groups["new"] = FakeGroup("consumer", members=[FakeMember("m", [])])
    assert [line.split() for line in ottla("group", "list").lines] == [
        ["group", "type", "state", "members", "lag", "behind"],
        ["billing", "classic", "Empty", "0", "6", "5", "min", "0", "s"],
        ["new", "consumer", "Stable", "1", "-", "-"],
    ]
    billed, new = json.loads(ottla("group", "list", "--format", "json").out)
    assert (billed["members"], billed["lag"]) == (0, 6)
    assert (new["members"], new["lag"], new["lag_seconds"]) == (1, None, None)


def test_an_empty_list_is_empty_and_says_why(ottla, peer):
    listed = ottla("group", "list")
    assert (listed.code, listed.out) == (0, b"")
    assert "no groups yet" in listed.err
    assert json.loads(ottla("group", "list", "--format", "json").out) == []


# describe


def test_describe_shows_members_who_reads_what_and_the_lag(ottla, peer, billing):
    billing.members = [FakeMember("m-1", [ZERO]), FakeMember("m-2", [ONE], instance_id="pod-2")]
    shown = ottla("group", "describe", "billing")
    assert shown.lines[0] == "billing: stable, classic protocol, 2 members, assignor range, coordinator 1"
    assert re.fullmatch(r"lag: 6 records, 5 min \d s behind", shown.lines[1])  # the clock runs
    assert [line.split() for line in shown.lines[3:6]] == [
        ["topic", "partition", "committed", "end", "lag", "behind", "read", "by"],
        ["orders", "0", "4", "10", "6", "5", "min", "0", "s", "app"],
        ["orders", "1", "10", "10", "0", "0", "s", "pod-2"],
    ]
    assert [line.split() for line in shown.lines[7:10]] == [
        ["member", "client", "host", "instance", "partitions"],
        ["m-1", "app", "10.0.0.7", "-", "1"],
        ["m-2", "app", "10.0.0.7", "pod-2", "1"],
    ]


def test_describe_as_json_has_the_same_facts(ottla, peer, billing):
    billing.members = [FakeMember("m-1", [ZERO])]
    (group,) = json.loads(ottla("group", "describe", "billing", "--format", "json").out)
    assert (group["group"], group["state"], group["assignor"], group["lag"]) == (
        "billing",
        "Stable",
        "range",
        6,
    )
    assert group["lag_seconds"] == pytest.approx(300, abs=20)
    assert group["members"] == [
        {
            "member_id": "m-1",
            "instance_id": None,
            "client_id": "app",
            "host": "10.0.0.7",
            "partitions": [{"topic": "orders", "partition": 0}],
        }
    ]
    behind, caught_up = group["partitions"]
    assert behind["lag_seconds"] == group["lag_seconds"]
    assert behind["member_id"] == "m-1"
    assert caught_up == {
        "topic": "orders",
        "partition": 1,
        "committed_offset": 10,
        "leader_epoch": None,
        "metadata": "done",
        "start_offset": 0,
        "end_offset": 10,
        "lag": 0,
        "lag_seconds": 0.0,
        "member_id": None,
    }


def test_what_is_assigned_but_not_committed_is_shown_without_a_lag(ottla, peer, orders):
    peer.groups["new"] = FakeGroup("consumer", members=[FakeMember("m-1", [ZERO])])
    shown = ottla("group", "describe", "new")
    assert shown.lines[0] == "new: stable, consumer protocol, 1 member, assignor uniform, coordinator 1"
    assert ["orders", "0", "-", "10", "-", "-", "app"] in [line.split() for line in shown.lines]


def test_a_group_that_is_caught_up_has_no_lag(ottla, peer, billing):
    del billing.offsets[ZERO]
    assert ottla("group", "describe", "billing").lines[1] == "lag: none"


def test_an_unknown_group_comes_with_near_names(ottla, peer, billing):
    for command in (("describe", "biling"), ("offsets", "biling"), ("delete", "biling")):
        failed = ottla("group", *command)
        assert failed.code == 1
        assert failed.err == (
            "error: there is no group 'biling'\n  did you mean: billing?\n  list them:  ottla group list\n"
            "  more:  ottla explain OTTLA-E202\n"
        )


# offsets


def test_offsets_are_shown_with_their_metadata(ottla, peer, billing):
    rows = [line.split() for line in ottla("group", "offsets", "billing").lines]
    assert rows[0] == ["topic", "partition", "committed", "start", "end", "lag", "behind", "metadata"]
    assert rows[2] == ["orders", "1", "10", "0", "10", "0", "0", "s", "done"]
    only = json.loads(ottla("group", "offsets", "billing", "--topic", "orders:0", "--format", "json").out)
    assert [(each["partition"], each["committed_offset"]) for each in only] == [(0, 4)]


def test_no_offsets_is_no_failure(ottla, peer, billing):
    none = ottla("group", "offsets", "billing", "--topic", "users")
    assert (none.code, none.out) == (0, b"")
    assert none.err == "billing has committed no offsets there\n"


# seek


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to-earliest",), {ZERO: 0, ONE: 0}),
        (("--to-latest",), {ZERO: 10, ONE: 10}),
        (("--by", "2"), {ZERO: 6, ONE: 10}),
        (("--by", "-7"), {ZERO: 0, ONE: 3}),
        (("--topic", "orders:1", "--to-offset", "7"), {ZERO: 4, ONE: 7}),
        (("--topic", "orders:1", "--to-earliest"), {ZERO: 4, ONE: 0}),
    ],
)
def test_seek_moves_a_stopped_group(ottla, peer, billing, options, expected):
    done = ottla("group", "seek", "billing", *options)
    assert done.code == 0
    assert offsets(peer) == expected


def test_seek_goes_to_the_first_record_at_or_after_a_time(ottla, peer, billing, orders):
    moment = orders - 3 * MINUTE_MS
    assert ottla("group", "seek", "billing", "--to-datetime", str(moment)).code == 0
    assert offsets(peer) == {ZERO: 6, ONE: 6}
    assert ottla("group", "seek", "billing", "--to-datetime", "2100-01-01").code == 0
    assert offsets(peer) == {ZERO: 10, ONE: 10}


def test_seek_shows_what_it_moves(ottla, peer, billing):
    done = ottla("group", "seek", "billing", "--by", "-4")
    assert [line.split() for line in done.lines] == [
        ["topic", "partition", "from", "to", "by"],
        ["orders", "0", "4", "0", "-4"],
        ["orders", "1", "10", "6", "-4"],
    ]
    assert done.err == "billing: 2 partitions reset\n"


def test_a_dry_run_moves_nothing(ottla, peer, billing):
    done = ottla("group", "seek", "billing", "--to-latest", "--dry-run", "--format", "json")
    assert json.loads(done.out) == {
        "group": "billing",
        "dry_run": True,
        "moves": [
            {"topic": "orders", "partition": 0, "from": 4, "to": 10},
            {"topic": "orders", "partition": 1, "from": 10, "to": 10},
        ],
    }
    assert offsets(peer) == {ZERO: 4, ONE: 10}
    assert peer.sent(ApiKey.OFFSET_COMMIT) == []


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
def test_seek_refuses_while_the_group_has_members_and_says_which(ottla, peer, billing, option):
    billing.members = [FakeMember(f"m-{number}", []) for number in range(7)]
    failed = ottla("group", "seek", "billing", "--to-latest", *option)
    assert failed.code == 1
    assert failed.err.splitlines()[:2] == [
        "error: billing is in use by 7 members:",
        "  app at 10.0.0.7 (m-0)",
    ]
    assert "  and 2 more\n  stop them and try again" in failed.err
    assert "ottla group describe billing" in failed.err
    assert offsets(peer) == {ZERO: 4, ONE: 10}


def test_a_member_that_joins_in_the_meantime_is_named_too(ottla, peer, network, billing):
    def join_before_the_commit(frame):
        if int.from_bytes(frame[:2], "big") == ApiKey.OFFSET_COMMIT:
            billing.members = [FakeMember("m-1", [])]
        return peer.answer(frame)

    network.listening[peer.address] = join_before_the_commit
    failed = ottla("group", "seek", "billing", "--to-latest")
    assert failed.code == 1
    assert "billing is in use by 1 member:" in failed.err


def test_a_new_group_can_be_given_a_place_to_start(ottla, peer, orders):
    assert ottla("group", "seek", "fresh", "--topic", "orders", "--to-latest").code == 0
    assert offsets(peer, "fresh") == {ZERO: 10, ONE: 10}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "name exactly one target: --to-earliest"),
        (("--to-earliest", "--by", "3"), "name exactly one target: --to-earliest"),
        (("--to-datetime", "yesterday"), "'yesterday' is not a time"),
        (("--to-latest", "--topic", "orders:x"), "'orders:x' is not a topic: write NAME"),
        (("--to-latest", "--topic", "orders:0", "--topic", "orders:1"), "orders is given twice"),
        (("--to-offset", "-3"), "-3 is less than 0"),
    ],
)
def test_a_wish_that_makes_no_sense_is_wrong_usage(ottla, peer, billing, options, words):
    failed = ottla("group", "seek", "billing", *options)
    assert failed.code == 2
    assert words in failed.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to-offset", "3"), "an offset belongs to one partition, but these are 2"),
        (("--to-offset", "11", "--topic", "orders:0"), "orders-0 has no offset 11: its range is 0 to 10"),
        (("--to-latest", "--topic", "orders:5"), "orders has no partition 5: it has 2, numbered from 0"),
        (("--to-latest", "--topic", "oders"), "there is no topic 'oders'\n  did you mean: orders"),
        (("--by", "1", "--topic", "users"), "billing has no committed offset in users-0 to shift"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(ottla, peer, billing, options, words):
    peer.add_topic("users")
    failed = ottla("group", "seek", "billing", *options)
    assert failed.code == 1
    assert words in failed.err
    assert offsets(peer) == {ZERO: 4, ONE: 10}


def test_a_group_without_offsets_needs_a_topic_to_be_moved(ottla, peer):
    peer.groups["idle"] = FakeGroup()
    failed = ottla("group", "seek", "idle", "--to-latest")
    assert failed.err == "error: idle has no committed offsets\n  name what to reset: --topic NAME\n"


# delete


def test_delete_removes_groups_without_members(ottla, peer):
    peer.groups = {"a": FakeGroup(), "b": FakeGroup(), "c": FakeGroup()}
    done = ottla("group", "delete", "a", "b", "--format", "json")
    assert json.loads(done.out) == [{"group": "a", "deleted": "group"}, {"group": "b", "deleted": "group"}]
    assert done.err == "a: deleted\nb: deleted\n"
    assert list(peer.groups) == ["c"]


def test_delete_refuses_while_the_group_has_members(ottla, peer, billing):
    billing.members = [FakeMember("m-1", [ZERO])]
    failed = ottla("group", "delete", "billing")
    assert failed.code == 1
    assert "billing is in use by 1 member:\n  app at 10.0.0.7 (m-1)\n  stop it" in failed.err


def test_of_several_groups_the_unknown_one_is_named_and_none_is_deleted(ottla, peer):
    peer.groups = {"a": FakeGroup()}
    assert "there is no group 'nope'" in ottla("group", "delete", "a", "nope").err
    assert list(peer.groups) == ["a"]


def test_delete_with_a_topic_forgets_only_its_offsets(ottla, peer, billing):
    done = ottla("group", "delete", "billing", "--topic", "orders:0")
    assert (done.code, done.err) == (0, "billing: 1 offset deleted\n")
    assert offsets(peer) == {ONE: 10}
    assert "no committed offsets there" in ottla("group", "delete", "billing", "--topic", "users").err


def test_offsets_that_members_use_are_not_forgotten(ottla, peer, billing):
    billing.members = [FakeMember("m-1", [ZERO])]
    failed = ottla("group", "delete", "billing", "--topic", "orders")
    assert failed.code == 1
    assert "members of billing read orders-0; its offsets cannot be deleted" in failed.err


def test_what_a_broker_refuses_is_said_in_words(ottla, peer, billing):
    peer.fail(ApiKey.FIND_COORDINATOR, ErrorCode.group_authorization_failed)
    failed = ottla("group", "describe", "billing")
    assert failed.code == 1
    assert failed.err.startswith("error: ")


# words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0.0, "0 s"),
        (3.21, "3.2 s"),
        (59.99, "60 s"),
        (125, "2 min 5 s"),
        (3_599, "59 min 59 s"),
        (12_000, "3 h 20 min"),
        (190_000, "2 d 4 h"),
    ],
)
def test_a_duration_is_said_in_two_units(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("text", "choice"),
    [("orders", ("orders", ())), ("orders:3", ("orders", (3,))), ("orders:3, 1,3", ("orders", (3, 1)))],
)
def test_a_topic_may_come_with_partitions(text, choice):
    assert parse_choice(text) == choice


@pytest.mark.parametrize("text", ["", ":1", "orders:", "orders:-1", "orders:1,", "orders:a"])
def test_what_is_not_a_topic_with_partitions_is_refused(text):
    with pytest.raises(ValueError, match="is not a topic"):
        parse_choice(text)
