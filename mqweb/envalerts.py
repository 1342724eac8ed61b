"""Variables of where alerts are told: webhooks and mail. Pure: knows names, types and limits."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mqweb.variables import Refused, Variable

VARIABLES = (
    Variable(
        name="MQWEB_WEBHOOK_HOSTS",
        default="",
        meaning="the only hosts of webhooks, by comma; empty: any public one",
    ),
    Variable(
        name="MQWEB_WEBHOOK_TRUSTED",
        default="",
        meaning="host or host:port of webhooks in this network, by comma",
    ),
    Variable(name="MQWEB_MAIL_HOST", default="", meaning="mail server for alerts; empty: no mail"),
    Variable(name="MQWEB_MAIL_PORT", default="587", meaning="its port"),
    Variable(name="MQWEB_MAIL_SECURITY", default="starttls", meaning="starttls, tls or none"),
    Variable(name="MQWEB_MAIL_USER", default="", meaning="whom to sign in as; empty: nobody"),
    Variable(name="MQWEB_MAIL_PASSWORD", default="", meaning="of that user"),
    Variable(name="MQWEB_MAIL_FROM", default="mqweb@localhost", meaning="sender of mails"),
    Variable(
        name="MQWEB_ALERT_LANGUAGE",
        default="en",
        meaning="of mails and chats: en, zh-hans",
    ),
)

# The values of apps.core.languages, which a test compares; this file knows no part of the product.
LANGUAGES = ("en", "zh-hans")

_NAME = re.compile(r"[0-9a-z]([0-9a-z.-]{0,251}[0-9a-z])?", re.ASCII)
# Brackets are for addresses of version 6, as in any address of a page.
_PLACE = re.compile(r"(?:\[([0-9a-f:.]{2,45})\]|([0-9a-z.-]{1,253}))(?::([1-9][0-9]{0,4}))?")
_SENDER = re.compile(r"[^\s@<>,;]{1,64}@[0-9A-Za-z.-]{1,253}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """The variables, parsed. An empty `mail_host` is no mail."""

    webhook_hosts: tuple[str, ...] = ()
    webhook_trusted: tuple[str, ...] = ()
    mail_host: str = ""
    mail_port: int = 587
    mail_security: str = "starttls"
    mail_user: str = ""
    mail_password: str = ""
    mail_from: str = "mqweb@localhost"
    alert_language: str = "en"


def read(values: Mapping[str, str]) -> Telling:
    """Parse the variables, each of which is there; raise Refused for the first bad one."""
    port = values["MQWEB_MAIL_PORT"]
    if not (re.fullmatch(r"[1-9][0-9]{0,4}", port, re.ASCII) and int(port) <= 65_535):
        raise Refused(f"MQWEB_MAIL_PORT={port[:20]!r}: must be from 1 to 65535")
    security = values["MQWEB_MAIL_SECURITY"]
    if security not in ("starttls", "tls", "none"):
        raise Refused(f"MQWEB_MAIL_SECURITY={security[:20]!r}: must be starttls, tls or none")
    sender = values["MQWEB_MAIL_FROM"]
    if not _SENDER.fullmatch(sender):
        raise Refused(f"MQWEB_MAIL_FROM={sender[:80]!r}: must be an address of mail")
    if values["MQWEB_MAIL_HOST"] and not _NAME.fullmatch(values["MQWEB_MAIL_HOST"].lower()):
        raise Refused("MQWEB_MAIL_HOST: must be a host name or an address")
    language = values["MQWEB_ALERT_LANGUAGE"].lower()
    if language not in LANGUAGES:
        raise Refused(f"MQWEB_ALERT_LANGUAGE={language[:20]!r}: must be en or zh-hans")
    return Telling(
        webhook_hosts=tuple(_hosts(values["MQWEB_WEBHOOK_HOSTS"])),
        webhook_trusted=tuple(_places(values["MQWEB_WEBHOOK_TRUSTED"])),
        mail_host=values["MQWEB_MAIL_HOST"].lower(),
        mail_port=int(port),
        mail_security=security,
        mail_user=values["MQWEB_MAIL_USER"],
        mail_password=values["MQWEB_MAIL_PASSWORD"],
        mail_from=sender,
        alert_language=language,
    )


def _words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",") if word.strip()]


def _hosts(text: str) -> list[str]:
    found = _words(text)
    for host in found:
        if not _NAME.fullmatch(host):
            raise Refused(f"MQWEB_WEBHOOK_HOSTS: {host[:80]!r} is not a host name")
    return found


def _places(text: str) -> list[str]:
    """Return hosts, and hosts with a port, without the brackets of an address."""
    found = []
    for word in _words(text):
        place = _PLACE.fullmatch(word)
        if place is None or (place[3] and int(place[3]) > 65_535):
            raise Refused(f"MQWEB_WEBHOOK_TRUSTED: {word[:80]!r} is neither host nor host:port")
        host = place[1] or place[2]
        found.append(f"{host}:{place[3]}" if place[3] else host)
    return found
