import pytest

from ottla.cli.cluster.spec_file import BadFile, as_yaml, parse
from ottla.client.admin.acls import Acl
from ottla.client.admin.cluster_spec import ClusterSpec, TopicSpec

SPEC = ClusterSpec(
    topics={"orders": TopicSpec(6, 3, {"retention.ms": "60000", "cleanup.policy": "compact,delete"})},
    brokers={"defaults": {"log.retention.ms": "1"}, "1": {"x.y": "true"}},
    acls=(Acl("User:alice", "read", "topic", "orders", "prefixed"), Acl("User:*", "describe", "cluster")),
    quotas={(("user", "alice"), ("client-id", None)): {"request_percentage": 12.5}},
)


def test_what_is_exported_is_read_back():
    assert parse(as_yaml(SPEC)) == SPEC


def test_values_are_written_as_people_write_them():
    text = "version: 1\ntopics:\n  a:\n    configs:\n      retention.ms: 60000\n"
    text += "      preallocate: true\n      min.cleanable.dirty.ratio: 0.5\n"
    text += "      cleanup.policy: [compact, delete]\n  b:\n"
    assert parse(text).topics == {
        "a": TopicSpec(
            configs={
                "retention.ms": "60000",
                "preallocate": "true",
                "min.cleanable.dirty.ratio": "0.5",
                "cleanup.policy": "compact,delete",
            }
        ),
        "b": TopicSpec(),
    }


def test_a_section_that_is_left_out_is_not_managed():
    assert parse('{"version": 1, "acls": []}') == ClusterSpec(acls=())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "the file: expected keys with values"),
        ("version: 2", "version: expected 1, found 2"),
        ("version: 1\ntopic: {}", "the file: 'topic' is unknown; did you mean topics?"),
        (
            "version: 1\ntopics: {a: {partition: 1}}",
            "topics.a: 'partition' is unknown; did you mean partitions?",
        ),
        ("version: 1\ntopics: {a: {partitions: 0}}", "topics.a.partitions: 0 is not a positive number"),
        ("version: 1\ntopics: {'a b': {}}", "topics.a b: topic name"),
        ("version: 1\ntopics: {a: {configs: {k: null}}}", "topics.a.configs.k: None is not a value"),
        ("version: 1\nbrokers: {all: {}}", "brokers.all: a broker is a node id"),
        ("version: 1\nacls: [{principal: 'User:a'}]", "acls[0]: operation is missing"),
        ("version: 1\nquotas: [{entity: {user: a}, x: y}]", "quotas[0].x: 'y' is not a number"),
        ("version: 1\nquotas: [{entity: {}}]", "quotas[0].entity: name a user"),
        ("a: [", "this is not YAML"),
        ("{", "this is not JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, reason):
    with pytest.raises(BadFile) as error:
        parse(text)
    assert str(error.value).startswith(reason)
