import pytest

from ottla.client.sasl import OAuthBearer, Plain, SaslRefused, Scram, saslprep


def test_plain_is_user_and_password_in_one_message():
    exchange = Plain("alice", "s3cret")
    assert exchange.first() == b"\0alice\0s3cret"
    assert exchange.answer(b"") is None


def test_oauthbearer_sends_the_token_and_understands_a_refusal():
    exchange = OAuthBearer("token")
    assert exchange.first() == b"n,,\x01auth=Bearer token\x01\x01"
    assert exchange.answer(b"") is None
    with pytest.raises(SaslRefused, match=r"the token is not accepted \(invalid_token\)"):
        exchange.answer(b'{"status":"invalid_token"}')
    with pytest.raises(SaslRefused, match="not accepted"):
        exchange.answer(b"what?")


def test_scram_sha_256_is_the_exchange_of_rfc_7677():
    exchange = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert exchange.answer(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def begun():
    exchange = Scram("SCRAM-SHA-256", "user", "pencil", "mine")
    exchange.first()
    return exchange


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "makes no sense"),
        (b"r=mine,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "makes no sense"),
        (b"r=mine+,s=,i=4096", "makes no sense"),
        (b"r=mine+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many", "makes no sense"),
        (b"r=mine+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "asks for 1 iterations"),
        (b"r=mine+,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999", "asks for 99999999 iterations"),
        (b"e=unknown-user", "the user or the password is wrong"),
        (b"\xff\xfe", "makes no sense"),
    ],
)
def test_a_broker_that_does_not_play_by_the_rules_is_refused(challenge, said):
    with pytest.raises(SaslRefused, match=said):
        begun().answer(challenge)


def test_a_broker_that_does_not_know_the_password_is_found_out():
    exchange = begun()
    exchange.answer(b"r=mine+theirs,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(SaslRefused, match="the broker does not know the password"):
        exchange.answer(b"v=AAAA")


def test_commas_and_equal_signs_in_a_user_name_are_escaped():
    assert Scram("SCRAM-SHA-512", "a,b=c", "x", "n").first() == b"n,,n=a=2Cb=3Dc,r=n"


def test_names_are_prepared_so_that_both_sides_mean_the_same():
    assert saslprep("I\u00adX") == "IX"
    assert saslprep("\u00aa") == "a"
    assert saslprep("\u2168") == "IX"
    assert saslprep("a\u00a0b") == "a b"
    with pytest.raises(SaslRefused, match="control characters"):
        saslprep("a\x07")
