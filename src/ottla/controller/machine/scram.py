"""Decisions about SCRAM credentials: set and removed by AlterUserScramCredentials, or added at the start.

A request names a user once for each mechanism. If anything about a user is refused, nothing about that user
is changed. The errors are Kafka's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.common.config.declaration import ConfigError
from ottla.controller.machine.requests import Decision
from ottla.metadata.entities import scram_changed
from ottla.metadata.image import ClusterImage
from ottla.metadata.records import MetadataRecord, ScramCredentialRemoved, ScramSecretCreated
from ottla.protocol.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from ottla.security.scram import (
    MAX_ITERATIONS,
    MECHANISM_CODES,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramCredential,
    credential_of,
    salt_password,
)

BOOTSTRAP_KEY = "ottla.bootstrap.scram"

_NEW_USER = re.compile(r"\s*(?P<mechanism>[A-Z0-9-]+)=\[(?P<options>[^\]]*)\](?:\s+|,|$)")


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential to set; `mechanism` is the number of the protocol, and may be an unknown one."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A credential to remove."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class NewScramUser:
    """A user of the configuration."""

    mechanism: str
    name: str
    password: str = field(repr=False)
    iterations: int = MIN_ITERATIONS

    def upsertion(self, salt: bytes) -> ScramUpsertion:
        """Return the change that adds it: milliseconds of work."""
        codes = {name: code for code, name in MECHANISM_CODES.items()}
        salted = salt_password(self.mechanism, self.password, salt, self.iterations)
        return ScramUpsertion(self.name, codes[self.mechanism], self.iterations, salt, salted)


def parse_new_users(text: str) -> list[NewScramUser]:
    """Return the users of `SCRAM-SHA-512=[name=alice,password=...,iterations=8192] ...`, or raise
    ConfigError.
    """
    users = []
    position = 0
    while position < len(text.rstrip()):
        match = _NEW_USER.match(text, position)
        if match is None or match["mechanism"] not in MECHANISMS:
            raise ConfigError(BOOTSTRAP_KEY, "is written SCRAM-SHA-512=[name=alice,password=secret]")
        options = dict(part.strip().partition("=")[::2] for part in match["options"].split(","))
        name, password = options.pop("name", "").strip('"'), options.pop("password", "").strip('"')
        iterations = options.pop("iterations", str(MIN_ITERATIONS))
        if not name or not password or options or not iterations.isdecimal():
            raise ConfigError(
                BOOTSTRAP_KEY, "a user has a name, a password and, if wanted, a number of iterations"
            )
        if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise ConfigError(BOOTSTRAP_KEY, f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}")
        users.append(NewScramUser(match["mechanism"], name, password, int(iterations)))
        position = match.end()
    return users


def alter_scram_credentials(
    image: ClusterImage, changes: Sequence[ScramUpsertion | ScramDeletion], new_secret: str
) -> Decision[dict[str, KafkaError | None]]:
    """Set and remove credentials; the one result has the error of each user, or None."""
    times = Counter((each.user, each.mechanism) for each in changes)
    results: dict[str, KafkaError | None] = {}
    for each in changes:
        error = _refusal(image, each)
        if times[each.user, each.mechanism] > 1:
            error = DuplicateResource("A user credential cannot be altered twice in the same request")
        results[each.user] = results.get(each.user) or error
    records = [_record(each) for each in changes if results[each.user] is None]
    if any(isinstance(each, ScramUpsertion) for each in changes) and records and not image.scram_secret:
        records.insert(0, ScramSecretCreated(new_secret))
    return Decision(tuple(records), (results,))


def add_missing_scram_users(
    image: ClusterImage, users: Sequence[ScramUpsertion], new_secret: str
) -> Decision[dict[str, KafkaError | None]]:
    """Add the users that have no credential for their mechanism yet."""
    missing = [
        each for each in users if (MECHANISM_CODES[each.mechanism], each.user) not in image.scram_credentials
    ]
    return alter_scram_credentials(image, missing, new_secret)


def _refusal(image: ClusterImage, change: ScramUpsertion | ScramDeletion) -> KafkaError | None:
    mechanism = MECHANISM_CODES.get(change.mechanism)
    if not change.user:
        return UnacceptableCredential("Username must not be empty")
    if mechanism is None:
        return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    if isinstance(change, ScramDeletion):
        if (mechanism, change.user) not in image.scram_credentials:
            return ResourceNotFound("Attempt to delete a user credential that does not exist")
        return None
    if change.iterations < MIN_ITERATIONS:
        return UnacceptableCredential("Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        return UnacceptableCredential("Too many iterations")
    if not change.salt or not change.salted_password:
        return UnacceptableCredential("The salt and the salted password must not be empty")
    return None


def _record(change: ScramUpsertion | ScramDeletion) -> MetadataRecord:
    mechanism = MECHANISM_CODES[change.mechanism]
    if isinstance(change, ScramDeletion):
        return ScramCredentialRemoved(change.user, mechanism)
    return scram_changed(change.user, mechanism, _credential(mechanism, change))


def _credential(mechanism: str, change: ScramUpsertion) -> ScramCredential:
    return credential_of(mechanism, change.salted_password, change.salt, change.iterations)
