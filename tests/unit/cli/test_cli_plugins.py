"""Packages add commands by entry points: shown with a distribution in a folder of its own."""

import sys

import pytest

CODE = """
import click


@click.command()
@click.argument("what")
def backup(what):
    click.echo(f"backing up {what}")


nothing = 42
"""
ENTRY_POINTS = """[ottla.cli.plugins]
backup = acme_ottla:backup
broken = acme_missing:command
nothing = acme_ottla:nothing
topic = acme_ottla:backup
"""


@pytest.fixture
def acme(tmp_path, monkeypatch):
    """A package that is installed beside Ottla."""
    (tmp_path / "acme_ottla.py").write_text(CODE)
    about = tmp_path / "acme_ottla-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ottla\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("acme_ottla", None)


def test_a_package_adds_a_command(ottla, acme):
    done = ottla("backup", "orders")
    assert (done.code, done.out) == (0, b"backing up orders\n")


def test_help_lists_it_with_its_package_and_without_importing_it(ottla, acme):
    shown = ottla("--help")
    assert "Commands of other packages" in shown.out.decode()
    assert any(line.split() == ["backup", "From", "acme-ottla", "1.2."] for line in shown.lines)
    assert "acme_ottla" not in sys.modules


def test_it_cannot_replace_a_command_of_ottla(ottla, acme):
    assert b"Create, list, describe" in ottla("topic", "--help").out
    assert [line.split()[0] for line in ottla("--help").lines if "acme" in line] == [
        "backup",
        "broken",
        "nothing",
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "the command 'broken' of acme-ottla 1.2 cannot be loaded: ModuleNotFoundError"),
        (
            "nothing",
            "the command 'nothing' of acme-ottla 1.2, acme_ottla:nothing, is not a click command",
        ),
    ],
)
def test_a_broken_package_breaks_its_own_command_only(ottla, acme, name, why):
    failed = ottla(name)
    assert failed.code == 1
    assert why in failed.err
    assert ottla("--version").code == 0


def test_a_typo_suggests_it(ottla, acme):
    assert "did you mean backup?" in ottla("bakup", "x").err
