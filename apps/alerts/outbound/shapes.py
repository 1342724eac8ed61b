"""What a notification looks like to each kind of channel. Pure: facts in, bytes or texts out.

The generic document is for programs, and English. Texts for people are in the active language.

Facts hold texts of strangers, names of groups among them: they become JSON or a line of plain
text, and never markup.
"""

import json
from collections.abc import Mapping
from typing import cast

from apps.alerts import words
from apps.alerts.kinds import written
from apps.core.phrases import Text, phrase

# DingTalk refuses more, and nobody reads it in a chat.
_TEXT_CHARACTERS_MAX = 1_000


def as_webhook(facts: Mapping[str, object], *, notification_id: int) -> bytes:
    """Return the generic document; `id` is the same however often it is sent."""
    event = facts.get("event")
    alert = {name: value for name, value in facts.items() if name != "event"}
    return json.dumps(
        {"version": 1, "id": str(notification_id), "event": event, "alert": alert},
        ensure_ascii=False,
    ).encode()


def as_dingtalk(facts: Mapping[str, object]) -> bytes:
    """Return a text message of a DingTalk robot."""
    content = {"msgtype": "text", "text": {"content": text_of(facts)}}
    return json.dumps(content, ensure_ascii=False).encode()


def as_slack(facts: Mapping[str, object]) -> bytes:
    """Return a message of a Slack webhook; its own markup is taken off names."""
    text = text_of(facts)
    for sign, quoted in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, quoted)
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def subject_of(facts: Mapping[str, object]) -> str:
    """Return the subject of a mail, one line."""
    return f"[mqweb] {title_of(facts)}"[:200]


def text_of(facts: Mapping[str, object]) -> str:
    """Return a few lines of plain text."""
    lines = [title_of(facts)]
    for name, line in (
        ("fired_at", phrase("firing since: %(at)s", at=_line(facts.get("fired_at")))),
        ("resolved_at", phrase("resolved at: %(at)s", at=_line(facts.get("resolved_at")))),
        ("resolution", phrase("because: %(why)s", why=words.resolution(_of(facts, "resolution")))),
        ("path", phrase("page: %(path)s", path=_line(facts.get("path")))),
    ):
        if facts.get(name):
            lines.append(str(line))
    return "\n".join(lines)[:_TEXT_CHARACTERS_MAX]


def title_of(facts: Mapping[str, object]) -> str:
    """Return what happened, in one line."""
    title = phrase(
        "%(event)s %(severity)s: %(summary)s",
        event=words.event(_of(facts, "event")),
        severity=words.severity(_of(facts, "severity")),
        summary=words.summary(
            facts, value=_value(facts, "value"), threshold=_value(facts, "threshold")
        ),
    )
    return _line(title)


def _value(facts: Mapping[str, object], name: str) -> Text:
    return written(cast("float | None", facts.get(name)), _of(facts, "unit"))


def _of(facts: Mapping[str, object], name: str) -> str:
    return _line(facts.get(name, ""))


def _line(value: object) -> str:
    return " ".join(str(value).split())
