"""Mail over real sockets: TLS, accounts, refused recipients, a server that goes and comes back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apps.alerts import services
from apps.alerts.models import Notification
from apps.alerts.services.delivery import backoff_ms
from tests.web.alerts.rows import channel
from tests.web.alerts.smtp import (
    NOBODY,
    PASSWORD,
    USER,
    Box,
    certificate,
    context_of,
    served,
)
from tests.web.alerts.test_delivery import state_of, trial_of
from tests.web.metrics.fakes import HandClock
from tests.web.product import free_port

pytestmark = pytest.mark.django_db


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return a certificate, and its key, that this process trusts."""
    found, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(found))
    return found, key


def use(settings: Any, port: int, **more: Any) -> None:
    """Have mail go by SMTP to a port of this machine."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "localhost", port, 5
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
    for name, value in more.items():
        setattr(settings, name, value)
    telling = replace(settings.MQWEB.telling, mail_host="localhost")
    settings.MQWEB = replace(settings.MQWEB, telling=telling)


def asked(*recipients: str, name: str = "ops") -> Notification:
    """Ask for one trial mail."""
    chosen = recipients or ("ada@example.com",)
    return trial_of(channel(name=name, kind="mail", url="", recipients=chosen))


def test_a_mail_arrives_whole(box: Box, clock: HandClock, settings: Any) -> None:
    with served(box) as port:
        use(settings, port)
        told = asked("ada@example.com", "bob@example.com")
        services.deliver(clock=clock)

    assert state_of(told)[0] == "sent"
    (message,) = box.messages
    assert box.recipients == [["ada@example.com", "bob@example.com"]]
    assert message["Subject"].startswith("[mqweb] TEST")
    assert message["From"] == settings.DEFAULT_FROM_EMAIL


@pytest.mark.parametrize("how", ["starttls", "tls"])
def test_a_password_goes_by_tls_alone(
    box: Box, clock: HandClock, settings: Any, trusted: tuple[Path, Path], how: str
) -> None:
    context = context_of(*trusted)
    options: dict[str, Any] = {
        "authenticator": box.authenticated,
        "auth_require_tls": how == "starttls",
        "auth_required": how == "starttls",
    }
    by_how = {
        "starttls": {"tls_context": context, "require_starttls": True},
        "tls": {"ssl_context": context},
    }
    with served(box, **options, **by_how[how]) as port:
        use(
            settings,
            port,
            EMAIL_USE_TLS=how == "starttls",
            EMAIL_USE_SSL=how == "tls",
            EMAIL_HOST_USER=USER,
            EMAIL_HOST_PASSWORD=PASSWORD,
        )
        told = asked()
        services.deliver(clock=clock)

    assert state_of(told) == ("sent", 1, "")
    # A server behind TLS from the first byte knows of none; it speaks nothing else.
    assert (box.logins, box.was_secure) == ([True], [how == "starttls"])


def test_a_server_with_a_certificate_nobody_trusts_gets_nothing(
    box: Box, clock: HandClock, settings: Any, tmp_path: Path
) -> None:
    context = context_of(*certificate(tmp_path))
    with served(box, tls_context=context, require_starttls=True) as port:
        use(settings, port, EMAIL_USE_TLS=True)
        told = asked()
        services.deliver(clock=clock)

    assert box.messages == []
    state, attempts, error = state_of(told)
    assert (state, attempts) == ("waiting", 1)
    assert "certificate" in error.lower()


def test_a_wrong_password_is_said_and_not_shown(
    box: Box, clock: HandClock, settings: Any, trusted: tuple[Path, Path]
) -> None:
    context = context_of(*trusted)
    with served(
        box, tls_context=context, authenticator=box.authenticated, auth_required=True
    ) as port:
        use(
            settings, port, EMAIL_USE_TLS=True, EMAIL_HOST_USER=USER,
            EMAIL_HOST_PASSWORD="not-it-at-all",
        )  # fmt: skip
        told = asked()
        services.deliver(clock=clock)

    state, _, error = state_of(told)
    assert (state, box.messages) == ("waiting", [])
    assert "SMTPAuthenticationError" in error
    assert "not-it-at-all" not in error


def test_a_password_that_mail_cannot_carry_is_given_up_and_not_shown(
    box: Box, clock: HandClock, settings: Any, trusted: tuple[Path, Path]
) -> None:
    context = context_of(*trusted)
    with served(box, tls_context=context, authenticator=box.authenticated) as port:
        use(settings, port, EMAIL_USE_TLS=True, EMAIL_HOST_USER=USER, EMAIL_HOST_PASSWORD="größer")
        told = asked()
        services.deliver(clock=clock)

    state, _, error = state_of(told)
    assert state == "failed"
    assert "MQWEB_MAIL_PASSWORD" in error
    assert "größer" not in error


def test_who_is_not_there_does_not_keep_the_mail_from_the_others(
    box: Box, clock: HandClock, settings: Any
) -> None:
    with served(box) as port:
        use(settings, port)
        told = asked("ada@example.com", NOBODY)
        services.deliver(clock=clock)

    assert box.recipients == [["ada@example.com"]]
    assert state_of(told)[0] == "sent"


def test_a_mail_that_nobody_there_takes_is_no_success(
    box: Box, clock: HandClock, settings: Any
) -> None:
    with served(box) as port:
        use(settings, port)
        told = asked(NOBODY)
        services.deliver(clock=clock)

    state, attempts, error = state_of(told)
    assert (state, attempts, box.messages) == ("waiting", 1, [])
    assert "SMTPRecipientsRefused" in error


def test_a_server_that_was_away_gets_the_mail_once_it_is_back(
    box: Box, clock: HandClock, settings: Any
) -> None:
    port = free_port()
    use(settings, port)
    told = asked()

    services.deliver(clock=clock)
    state, attempts, error = state_of(told)
    assert (state, attempts) == ("waiting", 1)
    assert "refused" in error.lower()
    clock.now_ms += backoff_ms(1)
    with served(box, port=port):
        services.deliver(clock=clock)
        services.deliver(clock=clock)

    assert state_of(told)[:2] == ("sent", 2)
    assert len(box.messages) == 1


def test_a_server_that_says_later_is_asked_again(box: Box, clock: HandClock, settings: Any) -> None:
    box.fails_next = True
    with served(box) as port:
        use(settings, port)
        told = asked()
        services.deliver(clock=clock)
        assert state_of(told)[0] == "waiting"
        clock.now_ms += backoff_ms(1)
        services.deliver(clock=clock)

    assert not box.fails_next
    assert state_of(told)[:2] == ("sent", 2)


def test_a_name_with_line_breaks_makes_no_header_and_no_recipient(
    box: Box, clock: HandClock, settings: Any
) -> None:
    with served(box) as port:
        use(settings, port)
        told = asked("ada@example.com", name="a\r\nBcc: eve@example.com\r\n\r\nbody")
        services.deliver(clock=clock)

    assert state_of(told)[0] == "sent"
    (message,) = box.messages
    assert message["Bcc"] is None
    assert box.recipients == [["ada@example.com"]]
