"""Registry processes beside brokers that cannot append conditionally: one is elected, the others forward."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.registry_stage import RunningRegistry

from ottla.registry.election import elect, identity_of, url_of
from ottla.testing.local_broker import OttlaBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[OttlaBroker]:
    with OttlaBroker() as running:
        yield running


def test_every_process_takes_changes_and_a_new_one_is_elected(broker: OttlaBroker) -> None:
    bootstrap = broker.bootstrap_servers
    ids: list[int] = []
    with RunningRegistry(bootstrap, elected=True) as first:
        with RunningRegistry(bootstrap, elected=True) as second:
            for number in range(6):
                writer, reader = (first, second) if number % 2 else (second, first)
                body = {"schema": f'{{"type":"fixed","name":"F{number}","size":1}}'}
                answer = writer.ask("POST", f"/subjects/elected-{number}/versions", body)
                assert answer.status == 200, answer
                ids.append(answer.body["id"])
                assert reader.ask("GET", f"/subjects/elected-{number}/versions/latest").body["id"] == ids[-1]
            refused = second.ask("DELETE", "/subjects/no%2Fwhere?permanent=true")
            assert refused.body == {"error_code": 40401, "message": "Subject 'no/where' not found."}
            for one in (first, second):
                assert one.ask("DELETE", "/subjects/elected-0").status in (200, 404)
        for number in range(6, 9):
            body = {"schema": f'{{"type":"fixed","name":"F{number}","size":1}}'}
            answer = first.ask("POST", f"/subjects/elected-{number}/versions", body)
            assert answer.status == 200, answer
            ids.append(answer.body["id"])
    assert ids == list(range(1, 10))
    with RunningRegistry(bootstrap) as plain:  # with conditional appends, on the same topic
        assert plain.ask("GET", "/subjects/elected-8/versions").body == [1]
        body = {"schema": '{"type":"fixed","name":"F9","size":1}'}
        assert plain.ask("POST", "/subjects/elected-9/versions", body).body["id"] == 10


def test_the_smallest_url_is_elected_as_confluents_processes_do() -> None:
    members = {"m1": identity_of("http://b:8081"), "m2": identity_of("http://a:8081")}
    assert elect(members) == {"version": 1, "error": 0, "master": "m2", "master_identity": members["m2"]}
    members["m2"]["master_eligibility"] = False
    assert elect(members)["master"] == "m1"
    members["m1"]["master_eligibility"] = False
    assert elect(members) == {"version": 1, "error": 0}
    twice = {"m1": identity_of("http://a:1"), "m2": identity_of("http://a:1")}
    assert elect(twice)["error"] == 1


@pytest.mark.parametrize("url", ["http://host:8081", "https://host:443", "http://[::1]:8081"])
def test_urls_survive_the_group(url: str) -> None:
    assert url_of(identity_of(url)) == url
