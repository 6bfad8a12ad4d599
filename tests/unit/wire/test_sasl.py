import pytest

from ottla.wire.sasl import OAuthBearer, Plain, SaslError, Scram


def test_plain_is_user_and_password_in_one_message():
    exchange = Plain("alice", "s3cret")
    assert exchange.first() == b"\0alice\0s3cret"
    assert exchange.respond(b"") is None


def test_oauthbearer_sends_the_token_and_understands_a_refusal():
    exchange = OAuthBearer("token")
    assert exchange.first() == b"n,,\x01auth=Bearer token\x01\x01"
    assert exchange.respond(b"") is None
    with pytest.raises(SaslError, match=r"the token is not accepted \(invalid_token\)"):
        exchange.respond(b'{"status":"invalid_token"}')
    with pytest.raises(SaslError, match="not accepted"):
        exchange.respond(b"what?")


def test_scram_sha_256_is_the_exchange_of_rfc_7677():
    exchange = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.respond(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def begun():
    exchange = Scram("SCRAM-SHA-256", "user", "pencil", "mine")
    exchange.first()
    return exchange


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "first SCRAM message is invalid"),
        (b"r=mine,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "first SCRAM message is invalid"),
        (b"r=mine+,s=,i=4096", "first SCRAM message is invalid"),
        (b"r=mine+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many", "first SCRAM message is invalid"),
        (b"r=mine+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "first SCRAM message is invalid: .* < 4096"),
        (b"r=mine+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "demands 99999999 iterations"),
        (b"e=unknown-user", "the user or the password is wrong"),
        (b"\xff\xfe", "first SCRAM message is invalid"),
    ],
)
def test_a_broker_that_does_not_play_by_the_rules_is_refused(challenge, said):
    with pytest.raises(SaslError, match=said):
        begun().respond(challenge)


def test_a_broker_that_does_not_know_the_password_is_found_out():
    exchange = begun()
    exchange.respond(b"r=mine+theirs,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslError, match="the broker does not know the password"):
        exchange.respond(b"v=AAAA")


def test_commas_and_equal_signs_in_a_user_name_are_escaped():
    assert Scram("SCRAM-SHA-512", "a,b=c", "x", "n").first() == b"n,,n=a=2Cb=3Dc,r=n"


def test_names_are_prepared_so_that_both_sides_mean_the_same():
    assert Scram("SCRAM-SHA-256", "I\u00adX", "x", "n").first() == b"n,,n=IX,r=n"
    assert Scram("SCRAM-SHA-256", "\u2168", "x", "n").first() == b"n,,n=IX,r=n"
    with pytest.raises(SaslError, match="the user name or the password cannot be used"):
        Scram("SCRAM-SHA-256", "a\x07", "x", "n")
