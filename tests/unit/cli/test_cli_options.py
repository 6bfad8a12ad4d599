import os
import subprocess
import sys

import click
import pytest

from ottla.cli.support.options import bootstrap_option, client_settings

FILE = """
default = "near"

[near]
bootstrap.servers = "fake:9092"

[far]
bootstrap.servers = "far.example.org:9092"
sasl.password = "hush"
"""


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    path = tmp_path / "profiles.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    monkeypatch.setenv("OTTLA_PROFILES", str(path))
    monkeypatch.delenv("OTTLA_BOOTSTRAP")
    return path


@pytest.fixture
def topics(peer):
    for name in ("orders", "payments"):
        peer.add_topic(name)


def test_the_default_profile_says_where_the_cluster_is(ottla, profiles, topics):
    profiles.write_text(FILE)
    assert ottla("topic", "list").code == 0


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_profile_is_chosen_by_name(ottla, profiles, topics, monkeypatch, how):
    if how == "variable":
        monkeypatch.setenv("OTTLA_PROFILE", "far")
    named = ("--profile", "far") if how == "option" else ()
    assert "far.example.org:9092" in ottla("topic", "list", *named).err


def test_an_address_that_is_typed_wins_over_everything(ottla, profiles, topics):
    assert ottla("topic", "list", "--profile", "far", "-b", "fake:9092").code == 0


def test_a_profile_that_is_typed_wins_over_the_environment(ottla, profiles, topics, monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "fake:9092")
    assert ottla("topic", "list").code == 0
    assert "far.example.org" in ottla("topic", "list", "--profile", "far").err


def test_a_profile_that_is_not_there_is_refused_with_those_that_are(ottla, profiles):
    failed = ottla("topic", "list", "--profile", "fare")
    assert failed.code == 1
    assert failed.err.splitlines()[:2] == ["error: there is no profile 'fare'", "  there are: near, far"]
    assert "OTTLA-E502" in failed.err


@pytest.mark.parametrize("text", ["[near", 'default = "nobody"', "near = 5"])
def test_a_file_that_is_no_profiles_is_refused(ottla, profiles, text):
    profiles.write_text(text)
    failed = ottla("topic", "list")
    assert failed.code == 1
    assert str(profiles) in failed.err


def test_profiles_are_listed_without_their_secrets(ottla, profiles):
    shown = ottla("config", "profiles")
    assert "far  " in shown.out.decode()
    assert "near (default)" in shown.out.decode()
    assert "hush" not in shown.out.decode()


def test_an_option_of_the_client_is_checked(ottla, topics):
    assert ottla("topic", "list", "-X", "request.timeout.ms=5000").code == 0
    wrong = ottla("topic", "list", "-X", "request.timeout=5")
    assert wrong.code == 2
    assert "request.timeout.ms" in wrong.err
    assert ottla("topic", "list", "-X", "request.timeout.ms=soon").code == 2


def test_an_option_of_the_producer_does_not_disturb_other_commands(ottla, topics):
    assert ottla("topic", "list", "-X", "linger.ms=5").code == 0
    assert ottla("produce", "orders", "hello", "-X", "linger.ms=5").code == 0
    assert "linger.ms: " in ottla("produce", "orders", "hello", "-X", "linger.ms=-5").err


def test_a_file_of_options_works_as_for_kafkas_tools(ottla, topics, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=5000\nsasl.mechanism=PLAIN\n")
    assert "sasl.mechanism: " in ottla("topic", "list", "--command-config", str(file)).err


def test_names_may_be_spelled_as_kafkas_tools_do(ottla, topics):
    made = ottla("topic", "create", "--topic", "more", "--bootstrap-server", "fake:9092", "--partitions", "2")
    assert made.code == 0
    assert ottla("produce", "--topic", "orders", "a", "b").err == "Wrote 2 records to orders\n"
    assert "unexpected" in ottla("consume", "orders", "--topic", "orders").err
    assert "missing argument" in ottla("consume").err.lower()


def complete(words: str, *, expect: int = 0) -> list[str]:
    environment = {
        **os.environ,
        "_OTTLA_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli"], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (expect, "")
    return [line.split(",")[1] for line in done.stdout.splitlines() if line]


def test_commands_and_options_are_completed():
    assert complete("ottla top") == ["topic"]
    assert {"create", "list", "describe", "alter", "delete", "trim"} <= set(complete("ottla topic "))
    assert "--from-beginning" in complete("ottla consume --f")


def test_without_a_broker_no_names_are_completed_and_nothing_is_said(monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "127.0.0.1:1")
    assert complete("ottla topic describe or") == []


def test_topics_and_groups_are_completed_by_asking_the_broker(peer, network, monkeypatch):
    import click

    from ottla.cli.support.completing import topic_names
    from ottla.cli.topic.command import describe

    for name in ("orders", "orders-late", "payments"):
        peer.add_topic(name)
    context = click.Context(describe)
    context.params["bootstrap"] = "fake:9092"
    assert topic_names(context, describe.params[0], "or") == ["orders", "orders-late"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(ottla, shell):
    assert "_OTTLA_COMPLETE" in ottla("completion", shell).out.decode()


def test_fish_shows_descriptions_with_commas_whole(ottla):
    assert 'string split --max 1 ","' in ottla("completion", "fish").out.decode()


def test_a_login_replaces_that_of_the_profile_however_each_is_written(ottla, profiles, tmp_path):
    """A profile has a user; a delegation token is used by Java's login configuration, and the reverse."""
    profiles.write_text(
        'default = "near"\n[near]\nsasl.mechanism = "PLAIN"\n'
        'sasl.username = "admin"\nsasl.password = "hush"\n'
    )
    java = tmp_path / "client.properties"
    java.write_text("sasl.jaas.config=Module required token;\n")

    def login(*words):
        seen = {}

        @click.command()
        @bootstrap_option
        def command(bootstrap):
            seen.update(client_settings())

        command.main(list(words), standalone_mode=False)
        assert seen.pop("sasl.mechanism") == "PLAIN"
        return seen

    admin = {"sasl.username": "admin", "sasl.password": "hush"}
    token = {"sasl.jaas.config": "Module required token;"}
    alice = {"sasl.username": "alice", "sasl.password": "x"}
    as_alice = ("-X", "sasl.username=alice", "-X", "sasl.password=x")
    assert login() == admin
    assert login("-X", "sasl.password=x") == {**admin, "sasl.password": "x"}
    assert login(*as_alice) == alice
    assert login("--command-config", str(java)) == token
    assert login("-X", "sasl.jaas.config=Module required token;") == token
    assert login("--command-config", str(java), *as_alice) == alice
    assert login(*as_alice, "-X", "sasl.jaas.config=Module required token;") == {**alice, **token}
