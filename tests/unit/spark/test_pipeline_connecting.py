"""What a command says about how to connect reaches every read and write of a pipeline."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ottla.cli.support.options import bootstrap_option
from ottla.cli.support.session import connection_settings
from ottla.spark.pipelines.registry import Registry
from ottla.spark.pipelines.run.driver import Job, project_without_files, resolver_of
from ottla.spark.pipelines.run.storage import open_storage

LOGIN = {"security.protocol": "SASL_SSL", "sasl.username": "alice", "sasl.password": "a b=c"}


def job(folder: Path, **more: object) -> Job:
    return Job(project_without_files("shop", folder), open_storage(folder, "shop", folder), **more)


def test_topics_are_read_and_written_with_the_login_of_the_command(tmp_path: Path) -> None:
    resolver = resolver_of(job(tmp_path, bootstrap="b:9093", client=LOGIN), None, Registry())
    assert resolver.topic_options == {
        "kafka.bootstrap.servers": "b:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "a b=c",
    }


def test_without_a_broker_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert resolver_of(job(tmp_path, client=LOGIN), None, Registry()).topic_options == {}


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ((), {}),
        (("-X", "security.protocol=PLAINTEXT", "-X", "linger.ms=5"), {"security.protocol": "PLAINTEXT"}),
    ],
)
def test_a_command_passes_on_what_every_client_has(typed: tuple[str, ...], kept: dict[str, str]) -> None:
    @click.command()
    @bootstrap_option
    def command(bootstrap: str) -> None:
        assert connection_settings() == kept

    assert CliRunner().invoke(command, typed, catch_exceptions=False).exit_code == 0


def test_an_option_that_no_client_has_is_refused() -> None:
    @click.command()
    @bootstrap_option
    def command(bootstrap: str) -> None:
        connection_settings()

    done = CliRunner().invoke(command, ("-X", "security.protocoll=SSL"))
    assert done.exit_code == 2
    assert "did you mean security.protocol?" in done.output
