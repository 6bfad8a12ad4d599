"""Login by OpenID Connect, at a provider in a thread of the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from joserfc.jwk import ECKey, KeySet
from tests.integration.openid_stage import OpenIdProvider

from ottla.common.clock import SystemClock
from ottla.console.access.login_attempts import VALID_S, LoginAttempts
from ottla.console.access.oidc import Oidc, OidcError, OidcOptions
from ottla.console.access.roles import OPERATOR

BACK = "http://127.0.0.1:8080/login/oidc/back"


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    with OpenIdProvider() as running:
        yield running


def log_in(provider: OpenIdProvider, **claims: Any) -> tuple[str, Any]:
    oidc = Oidc(OidcOptions(provider.issuer, "console"), SystemClock())
    attempt = LoginAttempts(SystemClock()).begin()
    back = provider.authorized(oidc.start(BACK, attempt))
    assert back == f"{BACK}?code=c&state={attempt.state}"
    provider.claims = claims
    return oidc.finish("code", BACK, attempt)


def test_who_comes_back_is_known(provider: OpenIdProvider) -> None:
    assert log_in(provider) == ("alice", OPERATOR)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"nonce": "other"}, "another login"),
        ({"iss": "https://evil.example.org"}, "another login"),
        ({"aud": "other"}, "another application"),
        ({"exp": 1}, "expired"),
        ({"exp": "soon"}, "expired"),
        ({"exp": None}, "expired"),
        ({"sub": None}, "whom it is for"),
    ],
)
def test_tokens_that_are_not_for_us_are_refused(
    provider: OpenIdProvider, claims: dict[str, Any], says: str
) -> None:
    with pytest.raises(OidcError, match=says):
        log_in(provider, **claims)


def test_a_forged_signature_is_refused(provider: OpenIdProvider) -> None:
    published = provider.key
    oidc = Oidc(OidcOptions(provider.issuer, "console"), SystemClock())
    attempt = LoginAttempts(SystemClock()).begin()
    provider.authorized(oidc.start(BACK, attempt))
    keys = KeySet([published]).as_dict(private=False)
    provider.document = lambda path, before=provider.document: keys if path == "/keys" else before(path)  # type: ignore[method-assign,misc]
    provider.key = ECKey.generate_key("P-256", parameters={"kid": "one", "use": "sig"})
    with pytest.raises(OidcError, match="cannot be trusted"):
        oidc.finish("code", BACK, attempt)


@pytest.mark.parametrize("host", ["issuer.example.org", "127.0.0.1.example.org", "localhost@example.org"])
def test_a_provider_without_https_elsewhere_is_refused(host: str) -> None:
    with pytest.raises(OidcError, match="not https"):
        Oidc(OidcOptions(f"http://{host}", "console"), SystemClock()).start(
            BACK, LoginAttempts(SystemClock()).begin()
        )


class MovedClock(SystemClock):
    """A clock that a test moves."""

    moved_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.moved_ms


def test_a_flood_of_logins_ends_no_other() -> None:
    attempts = LoginAttempts(SystemClock())
    first = attempts.begin()
    for _ in range(2_000):
        attempts.begin()
    assert attempts.find(first.state, first.state) == first


def test_logins_of_others_forged_ones_and_old_ones_are_not_completed() -> None:
    clock = MovedClock()
    attempts = LoginAttempts(clock)
    mine, other = attempts.begin(), attempts.begin()
    assert attempts.find(other.state, mine.state) is None
    assert attempts.find("", "") is None
    text, seal = mine.state.rsplit(".", 1)
    later = f"{text.partition('.')[0]}.{int(text.partition('.')[2]) + 1}.{seal}"
    assert attempts.find(later, later) is None
    assert LoginAttempts(clock).find(mine.state, mine.state) is None
    clock.moved_ms = VALID_S * 1000 + 1
    assert attempts.find(mine.state, mine.state) is None
