"""What a notification looks like to each kind of channel. Pure: facts in, bytes or texts out.

Facts hold texts of strangers, names of groups among them: they become JSON or a line of plain
text, and never markup.
"""

import json
from collections.abc import Mapping

_WORDS = {"firing": "FIRING", "resolved": "RESOLVED", "test": "TEST"}
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
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, written)
    return json.dumps({"text": text}, ensure_ascii=False).encode()


def subject_of(facts: Mapping[str, object]) -> str:
    """Return the subject of a mail, one line."""
    return f"[mqweb] {title_of(facts)}"[:200]


def text_of(facts: Mapping[str, object]) -> str:
    """Return a few lines of plain text."""
    lines = [title_of(facts)]
    for name, title in (
        ("fired_at", "firing since"),
        ("resolved_at", "resolved at"),
        ("resolution", "because"),
        ("path", "page"),
    ):
        if facts.get(name):
            lines.append(f"{title}: {_line(facts[name])}")
    return "\n".join(lines)[:_TEXT_CHARACTERS_MAX]


def title_of(facts: Mapping[str, object]) -> str:
    """Return what happened, in one line."""
    word = _WORDS.get(str(facts.get("event")), "")
    return f"{word} {_line(facts.get('severity', ''))}: {_line(facts.get('summary', ''))}"


def _line(value: object) -> str:
    return " ".join(str(value).split())
