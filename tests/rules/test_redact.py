"""Error texts that may be stored and shown (B7): no secret stays, and prose stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.redact import MAX_LENGTH, redact

pytestmark = pytest.mark.req("B7")

NSEC = "nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5"
NCRYPTSEC = (
    "ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw"
    "8gsq6yphnm8623nsl8xn9j4jdzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p"
)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
EVENT = "eyJpZCI6ImZlOTY0ZTc1ODkwMzM2MGYyOGQ4NDI0ZDA5MmRhOGVkIiwicHVia2V5Ij"

#: text, what must be gone, what must have stayed.
SECRETS = [
    (f"cannot use {NSEC} here", NSEC[6:], "cannot use [nsec] here"),
    (f"key={NSEC.upper()}", NSEC[6:].upper(), "[nsec]"),
    (f"my_{NSEC}", NSEC[6:], "my_[nsec]"),
    (f"nostr:{NSEC}.", NSEC[6:], "nostr:[nsec]."),
    (f"file holds {NCRYPTSEC}", NCRYPTSEC[11:], "file holds [ncryptsec]"),
    (
        "bunker://ab12?relay=wss://r.example&secret=s3cret is away",
        "s3cret",
        "bunker://[redacted] is away",
    ),
    ("NostrConnect://ab12?secret=s3cret", "s3cret", "NostrConnect://[redacted]"),
    ("wss://me:hunter2@relay.example/x", "hunter2", "wss://relay.example/x"),
    ("wss://me:hun@ter2@localhost/x", "ter2", "wss://localhost/x"),
    ("postgresql://post:pw1@db.example:5432/o", "pw1", "postgresql://db.example:5432/o"),
    ("https://token123@api.example", "token123", "https://api.example"),
    ("Authorization: Bearer abcdefghijkl", "abcdefghijkl", "Bearer [token]"),
    ("authorization: bearer 0123456789", "0123456789", "bearer [token]"),
    ("Basic dXNlcjpwYXNz was refused", "dXNlcjpwYXNz", "Basic [token] was refused"),
    (f"Authorization: Nostr {EVENT}", EVENT[8:], "Nostr [token]"),
    (f"expired: {JWT}", JWT[10:], "expired: [token]"),
    ("token=abc123&x=1", "abc123", "token=[redacted]&x=1"),
    ("?access_token=abc123", "abc123", "?access_token=[redacted]"),
    ("refresh_token: abc123", "abc123", "refresh_token: [redacted]"),
    ("refreshToken: abc123", "abc123", "refreshToken: [redacted]"),
    ("OPENAI_API_KEY=abc123", "abc123", "OPENAI_API_KEY=[redacted]"),
    ("apikey = 'abc 123' is wrong", "abc", "apikey = [redacted] is wrong"),
    ("client_secret=abc123;", "abc123", "client_secret=[redacted];"),
    ("secret_key=abc123", "abc123", "secret_key=[redacted]"),
    ('{"password": "correct horse", "user": "me"}', "horse", '"user": "me"'),
    ('{"password": "cut off', "cut", "password"),
    (r"body {\"token\":\"abc123\"}", "abc123", "token"),
    ("passphrase: open-sesame", "sesame", "passphrase: [redacted]"),
    ("private-key=abc123", "abc123", "private-key=[redacted]"),
    ("sk=abc123", "abc123", "sk=[redacted]"),
    ("seckey:\nabc123", "abc123", "seckey: [redacted]"),
    ("ask alice.b+c@mail.example.org now", "alice", "ask [e-mail] now"),
]


@pytest.mark.parametrize(("text", "gone", "stays"), SECRETS)
def test_secrets_are_taken_out(text: str, gone: str, stays: str) -> None:
    clean = redact(text)
    assert gone not in clean
    assert stays in clean


@pytest.mark.parametrize(("text", "gone", "stays"), SECRETS)
def test_what_was_cleaned_is_clean(text: str, gone: str, stays: str) -> None:
    once = redact(text)
    assert gone not in redact(once)


@pytest.mark.parametrize(
    "text",
    [
        "blocked: this relay is for members",
        "Basic authentication failed",
        "nostr relaying is off here",
        "Nostr Developers only",
        "risk: high, task: none",
        "the secret of a token is a password",
        "see https://relay.example/@alice or wss://relay.example:7777/path?x=1",
        "connection closed (1006)",
        "pubkey ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12 not admitted",
        "npub1sg6plzptd64u62a878hep2kev88swjh3tw00gjsfl8f237lmu63q0uf63m",
        "nicht zugelassen: schade 🦤",
        "",
    ],
)
def test_prose_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\r\nlines", "two lines"),
        ("\x1b[31mred\x1b[0m", "[31mred [0m"),
        ("a\x00b\x7fc\x9bd\u2028e", "a b c d e"),
        ("right\u202eleft\u2066", "right left"),
        ("lone \ud83e half", "lone ? half"),
        ("  spaced  ", "spaced"),
    ],
)
def test_a_text_is_one_plain_line(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_a_long_text_is_cut_where_one_can_see_it() -> None:
    assert redact("x" * MAX_LENGTH) == "x" * MAX_LENGTH
    assert redact("x" * (MAX_LENGTH + 1)) == "x" * (MAX_LENGTH - 1) + "…"


@given(st.text(), st.sampled_from([NSEC, NCRYPTSEC]), st.text())
def test_no_surrounding_text_protects_a_key(before: str, key: str, after: str) -> None:
    assert key[12:] not in redact(f"{before}{key}{after}")


@given(st.text(max_size=2000))
def test_any_text_becomes_one_bounded_line_of_utf8(text: str) -> None:
    clean = redact(text)
    assert len(clean) <= MAX_LENGTH
    assert not any(c in clean for c in "\n\r\t\x00\x1b\x7f\x9b\u2028\u202e")
    assert clean.encode().decode() == clean


@pytest.mark.parametrize(
    "bait", ["a.", "a-", "a+", "a@", "a.b@", "://", "a://", "token=", 'token="', "Nostr ", "eyJ-"]
)
def test_a_megabyte_of_bait_does_not_hold_us_up(bait: str) -> None:
    text = bait * (1_000_000 // len(bait))
    assert len(redact(text)) <= MAX_LENGTH  # a quadratic search would never end
