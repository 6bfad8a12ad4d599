"""All that is wrong with a broker's file of configuration, rather than the first thing only."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.problem_kinds import BAD_CONFIG
from ottla.cli.problems import Problem
from ottla.common.config.broker import BrokerConfig
from ottla.common.config.declaration import ConfigError
from ottla.common.config.properties import read_properties

Wrong = list[tuple[str, str]]


def check_file(file: Path) -> tuple[int, Wrong]:
    """Return how many keys a file has, and what is wrong with which of them."""
    try:
        raw = read_properties(file)
    except ConfigError as error:
        raise Problem(str(error), kind=BAD_CONFIG) from None
    wrong: Wrong = []
    rest = dict(raw)
    for _ in range(len(raw) + 1):
        try:
            BrokerConfig(rest)
        except ConfigError as error:
            wrong.append((error.key, error.reason))
            if rest.pop(error.key, None) is None:  # about keys together: there is no single one to leave away
                break
        else:
            break
    return len(raw), wrong
