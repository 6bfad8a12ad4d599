"""Entries of the metadata log as nodes of ZooKeeper."""

import json

import pytest

from ottla.metadata.records import MetadataError
from ottla.metadata.registration import BrokerRegistration, decode_registration, encode_registration
from ottla.metadata.zookeeper import log
from ottla.metadata.zookeeper.log import pack, read_header, unpack


@pytest.mark.parametrize("size", [0, 10, 4096, 4097, 100_000])
def test_what_is_packed_is_unpacked(size: int) -> None:
    text = ("ä" + "0123456789" * (size // 10 + 1))[:size]
    payload = pack(text, 7, "id")
    assert payload.parts == ()
    header = read_header(payload.node, "/p")
    assert (header.controller_epoch, header.id) == (7, "id")
    assert unpack(header, header.body, "/p") == text


def test_what_is_too_large_for_a_node_is_cut_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "PART_BYTES", 100)
    text = "\n".join(f"{at * 7919 % 100_003:032x}" for at in range(1_000))
    payload = pack(text, 1, "id")
    assert all(len(part) <= 100 for part in payload.parts)
    header = read_header(payload.node, "/p")
    assert header.parts == len(payload.parts) > 10
    assert unpack(header, b"".join(payload.parts), "/p") == text
    with pytest.raises(MetadataError, match="/p in ZooKeeper is damaged"):
        unpack(header, b"".join(payload.parts[:-1]), "/p")


@pytest.mark.parametrize("node", [b"", b"{}", b"not json\n", b'{"v":1}\nrest', b"[]\n"])
def test_what_is_no_entry_is_refused(node: bytes) -> None:
    with pytest.raises(MetadataError, match="not an entry"):
        read_header(node, "/p")


def test_an_entry_of_a_newer_version_is_refused_in_words() -> None:
    node = pack("text", 1, "id").node.replace(b'"v":1', b'"v":2')
    with pytest.raises(MetadataError, match="newer Ottla"):
        read_header(node, "/p")


def test_a_registration_of_a_newer_version_can_be_read() -> None:
    registration = BrokerRegistration(rack="a", wants_shutdown=True)
    values = json.loads(encode_registration(registration))
    assert decode_registration(json.dumps({**values, "since": "2.0"}).encode()) == registration
    with pytest.raises(MetadataError, match="not the registration"):
        decode_registration(b"[1]")
