"""SCRAM on the broker's side: RFC 7677's example, a client of another library, and what is refused."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient

from ottla.security.exchange import AuthenticationRefused, Identity
from ottla.security.scram import (
    MECHANISMS,
    USUAL_PARAMETERS,
    ScramCredential,
    ScramParameters,
    ScramServer,
    TokenCredential,
    fake_credential,
    make_credential,
    parameters_of,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_USER = make_credential("SCRAM-SHA-256", "pencil", SALT, 4096)
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def server(
    credential: ScramCredential | None = RFC_USER,
    mechanism: str = "SCRAM-SHA-256",
    token: TokenCredential | None = None,
) -> ScramServer:
    return ScramServer(
        mechanism,
        lambda _, user: credential if user == "user" else None,
        lambda _, token_id: token if token_id == "user" else None,
        lambda name, user: fake_credential(name, user, b"secret"),
        NONCE,
    )


def test_the_example_of_the_rfc() -> None:
    exchange = server()
    answer, identity = exchange.respond(FIRST)
    assert answer == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert identity is None
    assert exchange.respond(FINAL) == (
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        Identity("User:user"),
    )


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(MECHANISMS)),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20),
)
def test_a_client_of_another_library_authenticates(mechanism: str, user: str, password: str) -> None:
    credential = make_credential(mechanism, password, b"a salt of any length", 4096)
    exchange = ScramServer(
        mechanism,
        lambda _, name: credential if name == user else None,
        lambda *_: None,
        lambda name, who: fake_credential(name, who, b"secret"),
        NONCE,
    )
    client = ScramClient([mechanism], user, password)
    answer, _ = exchange.respond(client.get_client_first().encode())
    client.set_server_first(answer.decode())
    answer, identity = exchange.respond(client.get_client_final().encode())
    client.set_server_final(answer.decode())
    assert identity == Identity.of_user(user)


def test_an_unknown_user_gets_a_salt_that_stays_and_fails_at_the_proof() -> None:
    first = b"n,,n=nobody,r=rOprNGfwEbeRWgbNEkqO"
    exchange, again = server(), server()
    answer, _ = exchange.respond(first)
    assert again.respond(first)[0] == answer
    assert answer.endswith(b",i=4096")
    other, _ = server().respond(b"n,,n=somebody,r=rOprNGfwEbeRWgbNEkqO")
    assert other != answer
    with pytest.raises(AuthenticationRefused, match="Invalid username or password"):
        exchange.respond(FINAL)


JAVA_SALT = b"1f0dvfrs0d5yhxbjuhcnx5hjkp"  # 130 random bits in base 36
LOOKS = {
    "ottla": (bytes(24), 4096, ScramParameters(4096, 24)),
    "librdkafka": (bytes(64), 10_000, ScramParameters(10_000, 64)),
    "java": (JAVA_SALT, 8192, ScramParameters(8192, 0, is_javas=True)),
    "long": (bytes(200), 4096, ScramParameters(4096, 200)),
}


@pytest.mark.parametrize("library", LOOKS)
def test_an_unknown_user_looks_as_if_made_by_the_library_that_made_the_others(library: str) -> None:
    salt, iterations, look = LOOKS[library]
    users = [make_credential("SCRAM-SHA-256", "pencil", salt, iterations)]
    assert parameters_of(users) == (look,)
    fakes = [fake_credential("SCRAM-SHA-256", f"user{at}", b"secret", (look,)) for at in range(50)]
    assert parameters_of(fakes) == (look,)
    assert len({each.salt for each in fakes}) == len(fakes)


def test_without_users_an_unknown_one_looks_as_ottla_makes_them() -> None:
    assert parameters_of([]) == (USUAL_PARAMETERS,)
    assert parameters_of([fake_credential("SCRAM-SHA-512", "nobody", b"secret")]) == (USUAL_PARAMETERS,)


def test_with_several_looks_each_unknown_user_keeps_one_of_them() -> None:
    parameters = [look for _, _, look in LOOKS.values()]

    def seen(those: list[ScramParameters]) -> list[ScramParameters]:
        fakes = (fake_credential("SCRAM-SHA-256", f"user{at}", b"secret", those) for at in range(200))
        return [parameters_of([each])[0] for each in fakes]

    before, after = seen(parameters[:-1]), seen(parameters)
    assert set(before) == set(parameters[:-1])
    assert seen(parameters[-2::-1]) == before  # the order of users does not matter
    assert {new for old, new in zip(before, after, strict=True) if new != old} == {parameters[-1]}


def test_a_known_user_takes_the_work_of_an_unknown_one() -> None:
    faked: list[str] = []

    def fake(name: str, user: str) -> ScramCredential:
        faked.append(user)
        return fake_credential(name, user, b"secret")

    for user in ("user", "nobody"):
        exchange = ScramServer("SCRAM-SHA-256", lambda *_: RFC_USER, lambda *_: None, fake, NONCE)
        exchange.respond(f"n,,n={user},r=rOprNGfwEbeRWgbNEkqO".encode())
    assert faked == ["user", "nobody"]


def test_a_token_authenticates_as_its_owner_until_it_expires() -> None:
    token = TokenCredential("User:owner", RFC_USER, 12345)
    first = FIRST + b",tokenauth=true"
    exchange = server(None, token=token)
    answer, _ = exchange.respond(first)
    client = ScramClient(["SCRAM-SHA-256"], "user", "pencil", c_nonce="rOprNGfwEbeRWgbNEkqO")
    client.get_client_first()
    client.client_first_bare = first[3:].decode()
    client.set_server_first(answer.decode())
    _, identity = exchange.respond(client.get_client_final().encode())
    assert identity == Identity("User:owner", 12345, is_token=True)
    with pytest.raises(AuthenticationRefused):  # a user's name is no token id
        other = server(token=None)
        other.respond(first)
        other.respond(FINAL)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=us=2Xer,r=abc",
        b"n,a=other,n=user,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a,b",
        b"\xff\xfe",
        b"n,,n=user,r=" + b"x" * 600,
        b"n,,n=user,r=abc" + b"x" * 9000,
    ],
)
def test_a_first_message_that_is_not_valid_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationRefused):
        server().respond(message)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),
        (b"NlF$k0,", b"NlF$k1,"),
        (b"p=dH", b"p=dI"),
        (b",p=", b",q="),
        (b"p=dHzb", b"p="),
    ],
)
def test_a_final_message_that_does_not_fit_is_refused(old: bytes, new: bytes) -> None:
    exchange = server()
    exchange.respond(FIRST)
    with pytest.raises(AuthenticationRefused):
        exchange.respond(FINAL.replace(old, new))


def test_credentials_do_not_show_their_keys() -> None:
    assert repr(RFC_USER) == "ScramCredential(iterations=4096)"
