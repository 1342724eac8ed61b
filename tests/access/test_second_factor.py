"""Codes by time beside the password: set up, asked for, used once, and no way around."""

import dataclasses
import hashlib
import re
import threading
from typing import Any

import pyotp
import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test import Client

from apps.access import accounts, asking, factors, snapshot, sockets, tokens
from apps.access.gate import Denied
from apps.access.models import RecoveryCode, SecondFactor
from apps.access.policy import Role
from apps.audit.models import AuditEntry
from mqweb import envaccess
from mqweb.variables import Refused
from tests.access.test_signing_in import PASSWORD, clock, sign_in, vera
from tests.doors.fake_engine import ManualClock

__all__ = ["clock", "vera"]

pytestmark = pytest.mark.django_db(transaction=True)

BEGIN, CONFIRM, CODES, OFF = (
    f"/account/second-factor/{act}" for act in ("begin", "confirm", "codes", "off")
)


def secret_on(page: Any) -> str:
    found = re.search(r"<code>([A-Z2-7]{32})</code>", page.content.decode())
    assert found is not None, page.content.decode()
    return found[1]


def code_at(secret: str, clock: ManualClock, steps: int = 0) -> str:
    return pyotp.TOTP(secret).generate_otp(clock.wall_ms() // 30_000 + steps)


def set_up(client: Client, clock: ManualClock) -> tuple[str, list[str]]:
    """Turn the second factor on; return the secret and the recovery codes. A minute goes by."""
    page = client.post(BEGIN, {"password": PASSWORD}, follow=True)
    secret = secret_on(page)
    answer = client.post(CONFIRM, {"code": code_at(secret, clock)})
    codes = re.findall(r"[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}", answer.content.decode())
    assert len(codes) == 10, answer.content.decode()
    clock.now_ms += 60_000
    return secret, codes


@pytest.fixture
def here(vera: Client) -> Client:
    assert sign_in(vera, "vera", PASSWORD).status_code == 303
    return vera


def test_codes_are_those_of_rfc_6238(clock: ManualClock) -> None:
    # Appendix B of the RFC, SHA-1, cut to six digits.
    totp = pyotp.TOTP("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", interval=factors.STEP_S)

    found = [totp.generate_otp(time_s // 30) for time_s in (59, 1_111_111_109, 2_000_000_000)]

    assert found == ["287082", "081804", "279037"]


def test_it_is_on_once_a_code_has_shown_that_it_works(here: Client, clock: ManualClock) -> None:
    page = here.post(BEGIN, {"password": PASSWORD}, follow=True)
    secret = secret_on(page)
    picture = here.get("/account/second-factor/qr.svg")
    wrong = here.post(CONFIRM, {"code": "000000"}, follow=True)
    assert not factors.is_on(get_user_model().objects.get(username="vera"))

    on = here.post(CONFIRM, {"code": code_at(secret, clock)})

    assert f"otpauth://totp/mqweb:vera?secret={secret}" in page.content.decode()
    assert picture.headers["Content-Type"] == "image/svg+xml"
    assert "no-store" in picture.headers["Cache-Control"]
    assert b"style" not in picture.content
    assert "he code is wrong" in wrong.content.decode()
    assert "Keep them" in on.content.decode()
    assert "no-store" in on.headers["Cache-Control"]
    # Neither is ever shown again, and no table has them.
    again = here.get("/account/second-factor").content.decode()
    assert secret not in again
    assert here.get("/account/second-factor/qr.svg").status_code == 404
    rows = str([*SecondFactor.objects.values(), *RecoveryCode.objects.values()])
    assert secret not in rows
    code = re.search(r"[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}", on.content.decode())
    assert code is not None
    assert code[0].replace("-", "") not in rows
    assert secret not in str(list(AuditEntry.objects.values()))
    assert AuditEntry.objects.get(act="second_factor.on", result="done").name == "vera"


def test_the_password_alone_begins_no_session(here: Client, clock: ManualClock) -> None:
    secret, _ = set_up(here, clock)
    other = Client()

    sent = sign_in(other, "vera", PASSWORD, next="/locks")

    assert sent.headers["Location"] == "/sign-in/code"
    for path in ("/", "/account", "/account/second-factor", "/admin/", "/api/v1/topics"):
        assert other.get(path).status_code in (302, 401), path
    answer = other.post("/sign-in/code", {"code": code_at(secret, clock)})
    assert answer.headers["Location"] == "/locks"
    assert other.get("/account").status_code == 200
    told = AuditEntry.objects.filter(act="session.sign_in", result="done").latest("pk")
    assert told.after["second_factor"] == "code"


def test_the_admin_has_no_door_of_its_own(here: Client, clock: ManualClock) -> None:
    root = Client()
    sign_in(root, "root", PASSWORD)
    set_up(root, clock)
    other = Client()

    direct = other.post("/admin/login/", {"username": "root", "password": PASSWORD})
    sign_in(other, "root", PASSWORD)

    assert direct.headers["Location"].startswith("/sign-in")
    assert other.get("/admin/").status_code == 302
    assert root.get("/admin/").status_code == 200


def test_a_session_that_was_begun_without_a_code_is_none(here: Client, clock: ManualClock) -> None:
    planted = Client()
    set_up(here, clock)
    planted.force_login(get_user_model().objects.get(username="vera"))

    assert planted.get("/account").status_code == 302
    assert here.get("/account").status_code == 200


def test_turning_it_on_ends_the_sessions_that_had_no_code(here: Client, clock: ManualClock) -> None:
    there = Client()
    sign_in(there, "vera", PASSWORD)
    assert there.get("/account").status_code == 200

    set_up(here, clock)

    assert there.get("/account").status_code == 302


@pytest.mark.parametrize("steps", [-1, 0, 1])
def test_a_clock_may_be_half_a_minute_off(here: Client, clock: ManualClock, steps: int) -> None:
    secret, _ = set_up(here, clock)
    clock.now_ms += 120_000
    other = Client()
    sign_in(other, "vera", PASSWORD)

    answer = other.post("/sign-in/code", {"code": code_at(secret, clock, steps)})

    assert answer.status_code == 303


@pytest.mark.parametrize("steps", [-3, -2, 2, 3])
def test_codes_of_other_times_are_wrong(here: Client, clock: ManualClock, steps: int) -> None:
    secret, _ = set_up(here, clock)
    clock.now_ms += 120_000
    other = Client()
    sign_in(other, "vera", PASSWORD)

    answer = other.post("/sign-in/code", {"code": code_at(secret, clock, steps)})

    assert answer.status_code == 401


def test_a_code_is_good_once_and_so_is_every_older_one(here: Client, clock: ManualClock) -> None:
    secret, _ = set_up(here, clock)
    clock.now_ms += 120_000
    statuses = []
    for steps in (0, 0, -1, 1, 1):
        other = Client()
        sign_in(other, "vera", PASSWORD)
        answer = other.post("/sign-in/code", {"code": code_at(secret, clock, steps)})
        statuses.append(answer.status_code)

    assert statuses == [303, 401, 401, 303, 401]


def test_of_two_who_give_a_code_at_once_one_comes_in(here: Client, clock: ManualClock) -> None:
    secret, codes = set_up(here, clock)
    user = get_user_model().objects.get(username="vera")
    for text in (code_at(secret, clock), codes[0]):
        found: list[str | None] = []
        start = threading.Barrier(4)

        def give(text: str = text, found: list[str | None] = found, start: Any = start) -> None:
            start.wait()
            try:
                found.append(factors.verify(user, text))
            finally:
                connection.close()

        threads = [threading.Thread(target=give) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(str(one) for one in found).count("None") == 3, found


def test_a_recovery_code_is_good_once(here: Client, clock: ManualClock) -> None:
    _, codes = set_up(here, clock)
    statuses = []
    for text in (codes[0], codes[0], codes[1].lower().replace("-", " "), "AAAA-AAAA-AAAA-AAAA"):
        other = Client()
        sign_in(other, "vera", PASSWORD)
        statuses.append(other.post("/sign-in/code", {"code": text}).status_code)

    assert statuses == [303, 401, 303, 401]
    assert "8" in here.get("/account/second-factor").content.decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12345",
        "1234567",
        "\uff11\uff12\uff13\uff14\uff15\uff16",
        "12345a",
        "\0" * 6,
        "' or 1=1",
        "x" * 10_000,
    ],
)
def test_what_is_no_code_is_wrong(here: Client, clock: ManualClock, text: str) -> None:
    set_up(here, clock)
    other = Client()
    sign_in(other, "vera", PASSWORD)

    assert other.post("/sign-in/code", {"code": text}).status_code == 401


def test_codes_are_guessed_no_oftener_than_passwords(here: Client, clock: ManualClock) -> None:
    secret, _ = set_up(here, clock)
    other = Client()
    for _ in range(10):
        # The right password in between forgives nothing.
        sign_in(other, "vera", PASSWORD)
        assert other.post("/sign-in/code", {"code": "000000"}).status_code == 401

    waiting = other.post("/sign-in/code", {"code": code_at(secret, clock)})

    assert waiting.status_code == 429
    assert int(waiting.headers["Retry-After"]) > 0
    assert sign_in(Client(), "vera", PASSWORD).status_code == 429
    clock.now_ms += 15 * 60_000
    sign_in(other, "vera", PASSWORD)
    assert other.post("/sign-in/code", {"code": code_at(secret, clock)}).status_code == 303


def test_who_has_given_the_password_waits_five_minutes_for_the_code(
    here: Client, clock: ManualClock
) -> None:
    secret, _ = set_up(here, clock)
    late, changed = Client(), Client()
    sign_in(late, "vera", PASSWORD)
    clock.now_ms += 5 * 60_000
    sign_in(changed, "vera", PASSWORD)
    accounts.change_account(name="vera", password="Another horse 2", by="t")

    for other in (late, changed):
        answer = other.post("/sign-in/code", {"code": code_at(secret, clock)})
        assert answer.headers["Location"] == "/sign-in"
        assert other.get("/account").status_code == 302


def test_it_is_turned_off_by_password_and_code(here: Client, clock: ManualClock) -> None:
    secret, codes = set_up(here, clock)
    for asked in (
        {}, {"password": PASSWORD}, {"code": code_at(secret, clock)},
        {"password": "wrong", "code": code_at(secret, clock)},
        {"password": PASSWORD, "code": "000000"},
    ):  # fmt: skip
        here.post(OFF, asked)
        assert SecondFactor.objects.filter(confirmed_at__isnull=False).exists(), asked

    here.post(OFF, {"password": PASSWORD, "code": codes[0]})

    assert not SecondFactor.objects.exists()
    assert here.get("/account").status_code == 200
    assert AuditEntry.objects.get(act="second_factor.off").by == "vera"
    assert sign_in(Client(), "vera", PASSWORD).headers["Location"] == "/"


def test_new_recovery_codes_take_the_place_of_the_old(here: Client, clock: ManualClock) -> None:
    secret, codes = set_up(here, clock)

    page = here.post(CODES, {"password": PASSWORD, "code": code_at(secret, clock)})

    fresh = re.findall(r"[A-Z2-7]{4}(?:-[A-Z2-7]{4}){3}", page.content.decode())
    user = get_user_model().objects.get(username="vera")
    assert len(set(fresh) - set(codes)) == 10
    assert factors.verify(user, codes[0]) is None
    assert factors.verify(user, fresh[0]) == "recovery code"


def test_an_admin_turns_off_what_somebody_else_has_lost(here: Client, clock: ManualClock) -> None:
    set_up(here, clock)
    root = Client()
    sign_in(root, "root", PASSWORD)
    set_up(root, clock)

    own = root.post("/access/accounts/root/second-factor-off", follow=True)
    own_api = root.post("/api/v1/accounts/root/second-factor:off", {}, "application/json")
    by_vera = here.post("/access/accounts/vera/second-factor-off")
    root.post("/access/accounts/vera/second-factor-off")
    again = root.post("/api/v1/accounts/vera/second-factor:off", {}, "application/json")

    assert "our own second factor" in own.content.decode()
    assert (own_api.status_code, by_vera.status_code, again.status_code) == (409, 403, 409)
    assert [row.user.username for row in SecondFactor.objects.all()] == ["root"]
    assert AuditEntry.objects.get(act="second_factor.off", result="done").by == "root"


def test_a_command_lets_the_last_admin_in_again(here: Client, clock: ManualClock) -> None:
    set_up(here, clock)

    call_command("account", "second-factor-off", "vera")

    assert not SecondFactor.objects.exists()


# --- demanded ------------------------------------------------------------------------------------


@pytest.fixture
def demanded(here: Client, settings: Any) -> Client:
    """Return the browser of who has no second factor, and needs one from now on."""
    settings.MQWEB = dataclasses.replace(
        django_settings.MQWEB, auth="on", second_factor=frozenset({"viewer"})
    )
    snapshot.publish()
    return here


def test_who_has_none_is_led_to_set_it_up_and_may_do_nothing_else(demanded: Client) -> None:
    for path in ("/", "/locks", "/account", "/admin/", "/api/docs/", "/topics/orders/"):
        answer = demanded.get(path)
        assert (answer.status_code, answer.headers["Location"]) == (
            302, "/account/second-factor",
        ), path  # fmt: skip
    assert demanded.get("/api/v1/topics").status_code == 403
    assert demanded.post("/account/password", {}).status_code == 302
    assert demanded.post("/preferences", {}).status_code < 500
    page = demanded.get("/account/second-factor")
    assert "Your role signs in with a code" in page.content.decode()
    assert "/sign-out" in page.content.decode()


def test_who_has_set_it_up_goes_on(demanded: Client, clock: ManualClock) -> None:
    set_up(demanded, clock)

    assert demanded.get("/account").status_code == 200
    assert demanded.get("/api/v1/topics").status_code == 200


def test_a_socket_is_not_opened_before_that_and_an_open_one_ends(
    here: Client, settings: Any
) -> None:
    scope = {
        "headers": [(b"cookie", f"mqweb_session={here.cookies['mqweb_session'].value}".encode())],
        "client": ("127.0.0.1", 1),
    }
    rights = sockets._by_session(scope)
    assert rights.denial() is None

    settings.MQWEB = dataclasses.replace(
        django_settings.MQWEB, auth="on", second_factor=frozenset({"viewer"})
    )
    snapshot.publish()

    assert rights.denial() is not None
    with pytest.raises(Denied, match="second factor"):
        sockets._by_session(scope)


def test_tokens_stay_as_they_are(demanded: Client) -> None:
    secret = tokens.issue_token(name="vera", label="x", by="t").secret
    snapshot.publish()

    answer = Client().get("/api/v1/topics", headers={"Authorization": f"Bearer {secret}"})

    assert answer.status_code == 200


def test_a_super_user_counts_as_an_admin(closed: None, settings: Any) -> None:
    settings.MQWEB = dataclasses.replace(
        django_settings.MQWEB, auth="on", second_factor=frozenset({"admin"})
    )
    accounts.create_account(name="otto", password=PASSWORD, role=Role.OPERATOR, by="t")
    accounts.create_account(name="sue", password=PASSWORD, role=Role.NONE, by="t")
    get_user_model().objects.filter(username="sue").update(is_superuser=True)
    snapshot.publish()

    book = asking.gate.book().accounts
    lacks = {account.principal.name: account.lacks_factor for account in book.values()}

    assert lacks == {"otto": False, "sue": True}


def test_another_key_of_the_installation_makes_other_secrets(
    here: Client, clock: ManualClock, settings: Any
) -> None:
    _, codes = set_up(here, clock)
    user = get_user_model().objects.get(username="vera")
    row = SecondFactor.objects.get()
    before = factors._secret_of(row)

    settings.SECRET_KEY = "k" * 60

    assert factors._secret_of(row) != before
    # What is kept of recovery codes knows no key, so they let somebody in who has them.
    digest = hashlib.sha256(f"{row.salt}:{codes[0].replace('-', '')}".encode()).hexdigest()
    assert RecoveryCode.objects.filter(digest=digest).exists()
    assert factors.verify(user, codes[0]) == "recovery code"


@pytest.mark.parametrize("text", ["none", "Admin", "admin;operator", "*"])
def test_a_word_that_is_no_role_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="MQWEB_SECOND_FACTOR"):
        envaccess.second_factor({envaccess.FACTOR: text})


def test_roles_are_read() -> None:
    found = envaccess.second_factor({envaccess.FACTOR: " admin, operator,"})

    assert found == {"admin", "operator"}
