"""The second factor of accounts: codes by time (RFC 6238), and codes for when the phone is gone.

Knows rows and the installation's key. A secret is made of a row's salt and that key, and is in the
answers that set it up and in no other; recovery codes are shown once, and kept as digests.
"""

import hashlib
import hmac
import secrets
from base64 import b32encode
from dataclasses import dataclass
from datetime import datetime

import pyotp
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from apps.access import asking, snapshot
from apps.access.ends import end
from apps.access.models import RecoveryCode, SecondFactor
from apps.audit.services import recorded
from apps.core.exceptions import ProblemError
from apps.core.moments import moment
from apps.core.phrases import sentence
from apps.engine.errors import InvalidArgument

STEP_S = 30
# A clock may be half a minute off, in either direction.
_STEPS_AROUND = 1
CODE_DIGITS = 6
RECOVERY_CODES = 10
_RECOVERY_BYTES = 10
_SALT_BYTES = 20
_LABEL = b"mqweb's second factor, version 1\0"
ISSUER = "mqweb"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUp:
    """What a program that makes codes is told once: the secret, and both as a link."""

    secret: str
    link: str


def of(user: User) -> SecondFactor | None:
    """Return the second factor of an account, confirmed or not; None without one."""
    return SecondFactor.objects.filter(user=user).first()


def is_on(user: User) -> bool:
    """Say whether an account signs in with a second factor."""
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).exists()


def left_of(user: User) -> int:
    """Return how many recovery codes were not used."""
    return RecoveryCode.objects.filter(factor__user=user, used_at=None).count()


def begin(user: User) -> SecondFactor:
    """Make a new secret, which nothing depends on before it is confirmed.

    Raises ProblemError `conflict` where one is on.
    """
    if is_on(user):
        raise _is_on()
    values = {
        "salt": secrets.token_hex(_SALT_BYTES),
        "begun_at": _now(),
        "last_step": 0,
    }
    return SecondFactor.objects.update_or_create(user=user, defaults=values)[0]


def set_up_of(factor: SecondFactor) -> SetUp:
    """Return what to type or scan; raise ProblemError `conflict` once it is on."""
    if factor.confirmed_at is not None:
        raise _is_on()
    secret = _secret_of(factor)
    link = pyotp.TOTP(secret, interval=STEP_S, digits=CODE_DIGITS).provisioning_uri(
        name=factor.user.get_username(), issuer_name=ISSUER
    )
    return SetUp(secret=secret, link=link)


def confirm(*, user: User, code: str, keeps_session: str = "", by: str) -> list[str]:
    """Have an account sign in with codes from now on; return its recovery codes, never again.

    Its sessions, which were begun without a code, end, but for the one with the key
    `keeps_session`.

    Raises InvalidArgument for a wrong code, and ProblemError `conflict` without a secret.
    """
    with recorded(by=by, act="second_factor.on", kind="account", name=user.get_username()) as entry:
        snapshot.raise_version()
        factor = SecondFactor.objects.select_for_update().filter(user=user).first()
        if factor is None or factor.confirmed_at is not None:
            raise ProblemError(
                "conflict", sentence("there is no second factor that waits to be confirmed")
            )
        if not _take(factor, code):
            raise wrong_code()
        factor.refresh_from_db()
        factor.confirmed_at = _now()
        factor.save(update_fields=["confirmed_at"])
        codes = _new_codes(factor)
        ended = end(user.sign_ins.exclude(session_key=keeps_session))
        entry.after = {"is_on": True, "recovery_codes": len(codes), "sign_ins_ended": ended}
    return codes


def new_codes(*, user: User, by: str) -> list[str]:
    """Replace the recovery codes; return the new ones, never again. Raises `conflict`."""
    name = user.get_username()
    with recorded(by=by, act="second_factor.codes", kind="account", name=name) as entry:
        factor = _on(user).select_for_update().first()
        if factor is None:
            raise _is_off()
        codes = _new_codes(factor)
        entry.after = {"recovery_codes": len(codes)}
    return codes


def turn_off(*, user: User, by: str) -> None:
    """Have an account sign in with its password alone. Raises ProblemError `conflict`.

    Who asks has shown their password and a code, or administers.
    """
    name = user.get_username()
    with recorded(by=by, act="second_factor.off", kind="account", name=name) as entry:
        snapshot.raise_version()
        factor = _on(user).select_for_update().first()
        if factor is None:
            raise _is_off()
        entry.before = {"is_on": True, "confirmed_at": factor.confirmed_at}
        factor.delete()


def turn_off_another(*, user: User, asking_id: int | None, by: str) -> None:
    """Have somebody who has lost their codes sign in with a password alone.

    Raises ProblemError `conflict`, also for one's own: that is turned off by password and code.
    """
    if user.pk == asking_id:
        raise ProblemError(
            "conflict", sentence("your own second factor is turned off by password and code")
        )
    turn_off(user=user, by=by)


def verify(user: User, text: str) -> str | None:
    """Take a code by time or a recovery code; return which it was, None for a wrong one.

    Either is good once: who comes second with the same one is refused, also at the same moment.
    """
    factor = _on(user).first()
    if factor is None:
        return None
    code = "".join(text.split()).replace("-", "").upper()
    if code.isascii() and code.isdigit() and len(code) == CODE_DIGITS:
        return "code" if _take(factor, code) else None
    found = factor.codes.filter(digest=_digest_of(factor, code), used_at=None)
    return "recovery code" if found.update(used_at=_now()) == 1 else None


def wrong_code() -> InvalidArgument:
    """Return the refusal of a code that is wrong, used or of another time."""
    return InvalidArgument(sentence("the code is wrong, was used before, or its time is over"))


def _take(factor: SecondFactor, code: str) -> bool:
    """Say whether a code is one of now, and was not taken before; and take it."""
    totp = pyotp.TOTP(_secret_of(factor), interval=STEP_S, digits=CODE_DIGITS)
    now = asking.clock.wall_ms() // 1000 // STEP_S
    for step in range(now - _STEPS_AROUND, now + _STEPS_AROUND + 1):
        if step > factor.last_step and hmac.compare_digest(
            totp.generate_otp(step).encode(), code.encode()
        ):
            newer = SecondFactor.objects.filter(pk=factor.pk, last_step__lt=step)
            return newer.update(last_step=step) == 1
    return False


def _secret_of(factor: SecondFactor) -> str:
    message = _LABEL + bytes.fromhex(factor.salt)
    mac = hmac.new(settings.SECRET_KEY.encode(), message, hashlib.sha256)
    return b32encode(mac.digest()[:_SALT_BYTES]).decode()


def _digest_of(factor: SecondFactor, code: str) -> str:
    return hashlib.sha256(f"{factor.salt}:{code}".encode()).hexdigest()


def _new_codes(factor: SecondFactor) -> list[str]:
    factor.codes.all().delete()
    # 80 bits each: a digest without a slow hash gives none of them away.
    made = [b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode() for _ in range(RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create(
        RecoveryCode(factor=factor, digest=_digest_of(factor, code)) for code in made
    )
    return ["-".join(code[start : start + 4] for start in range(0, 16, 4)) for code in made]


def _on(user: User) -> QuerySet[SecondFactor]:
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False)


def _now() -> datetime:
    return moment(asking.clock.wall_ms())


def _is_on() -> ProblemError:
    return ProblemError("conflict", sentence("the second factor is on already"))


def _is_off() -> ProblemError:
    return ProblemError("conflict", sentence("the account has no second factor"))
