"""Where a worker keeps the checkpoints of connectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.client_options import ClientOptions
from ottla.connect.options import WorkerOptions


def options(storage: Path) -> WorkerOptions:
    return WorkerOptions(ClientOptions(bootstrap_servers=("127.0.0.1:9092",)), {}, storage=storage)


@pytest.mark.parametrize("name", ["../../etc", "/etc", "..", ".", "", "a/../../..", "a\0b"])
def test_no_name_of_a_connector_leads_out_of_the_storage(name: str, tmp_path: Path) -> None:
    folder = options(tmp_path).checkpoints_of(name)
    assert folder.resolve().parent == tmp_path.resolve() / "connect-cluster"


def test_usual_names_are_folders_of_their_own(tmp_path: Path) -> None:
    found = options(tmp_path)
    assert found.checkpoints_of("orders-to_s3.v1").name == "orders-to_s3.v1"
    assert found.checkpoints_of("a/b") != found.checkpoints_of("a%2Fb")


def test_long_names_are_folders_of_their_own(tmp_path: Path) -> None:
    found = options(tmp_path)
    folders = [found.checkpoints_of(each) for each in ("件" * 100, "件" * 101, "x" * 1000)]
    for each in folders:
        each.mkdir(parents=True)
    assert len(set(folders)) == 3
