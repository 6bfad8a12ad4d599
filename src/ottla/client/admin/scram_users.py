"""The users of SCRAM: list them, set their passwords, remove them."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.alter_user_scram_credentials.v0 import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kio.schema.alter_user_scram_credentials.v0.request import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.describe_user_scram_credentials.v0 import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kio.schema.describe_user_scram_credentials.v0.request import UserName

from ottla.client.cluster import Cluster
from ottla.client.errors import raise_for
from ottla.common.ids import new_salt
from ottla.protocol.types import i8, i32
from ottla.security.scram import MECHANISM_CODES, salt_password

ITERATIONS = 8192
_CODES = {name: code for code, name in MECHANISM_CODES.items()}


async def describe_scram_users(cluster: Cluster, users: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the iterations by mechanism of these users, or of all; raise ResourceNotFound for one that
    does not exist.
    """
    named = tuple(UserName(name=each) for each in users)
    request = DescribeUserScramCredentialsRequest(users=named or None)

    async def attempt() -> DescribeUserScramCredentialsResponse:
        connection = await cluster.any_broker()
        response = await connection.request(request, DescribeUserScramCredentialsResponse)
        raise_for(response.error_code, response.error_message)
        return response

    response = await cluster.retrying(attempt, what="the users were not listed")
    found = {}
    for each in response.results:
        raise_for(each.error_code, each.error_message)
        found[each.user] = {
            MECHANISM_CODES.get(info.mechanism, "unknown"): int(info.iterations)
            for info in each.credential_infos
        }
    return found


async def set_scram_password(
    cluster: Cluster, user: str, password: str, mechanism: str, iterations: int
) -> None:
    """Create a user, or set another password; the password itself is not sent."""
    salt = new_salt()
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=_code(mechanism),
        iterations=i32(iterations),
        salt=salt,
        salted_password=salt_password(mechanism, password, salt, iterations),
    )
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,)))


async def remove_scram_user(cluster: Cluster, user: str, mechanism: str | None) -> None:
    """Remove a user's credential for a mechanism, or all of them; raise ResourceNotFound if there is none."""
    found = (await describe_scram_users(cluster, (user,)))[user] if mechanism is None else {mechanism: 0}
    deletions = tuple(ScramCredentialDeletion(name=user, mechanism=_code(each)) for each in found)
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=()))


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    async def attempt() -> AlterUserScramCredentialsResponse:
        connection = await cluster.controller()
        response = await connection.request(request, AlterUserScramCredentialsResponse)
        for each in response.results:
            raise_for(each.error_code, each.error_message)
        return response

    await cluster.retrying(attempt, what="the user was not changed")


def _code(mechanism: str) -> i8:
    if mechanism not in _CODES:
        raise ValueError(f"{mechanism!r} is none of {', '.join(_CODES)}")
    return i8(_CODES[mechanism])
