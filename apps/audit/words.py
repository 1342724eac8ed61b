"""What acts, objects and doors of the audit log are called on pages. Pure: names to phrases.

In English an act is called by its name, which is what programs and searches know it by. Entries
keep these names; nothing here is written down.
"""

from collections.abc import Mapping
from typing import Final

from apps.core.phrases import Text, phrase_in

ACT_WORDS: Final[Mapping[str, Text]] = {
    "topic.create": phrase_in("act", "topic.create"),
    "topic.change": phrase_in("act", "topic.change"),
    "topic.delete": phrase_in("act", "topic.delete"),
    "topic.expire": phrase_in("act", "topic.expire"),
    "group.create": phrase_in("act", "group.create"),
    "group.change": phrase_in("act", "group.change"),
    "lock.release": phrase_in("act", "lock.release"),
    "queue.suspend": phrase_in("act", "queue.suspend"),
    "queue.resume": phrase_in("act", "queue.resume"),
    "queue.skip": phrase_in("act", "queue.skip"),
    "queue.park": phrase_in("act", "queue.park"),
    "offsets.apply": phrase_in("act", "offsets.apply"),
    "offsets.undo": phrase_in("act", "offsets.undo"),
    "delayed.cancel": phrase_in("act", "delayed.cancel"),
    "delayed.deliver_now": phrase_in("act", "delayed.deliver_now"),
    "transaction.commit": phrase_in("act", "transaction.commit"),
    "transaction.roll_back": phrase_in("act", "transaction.roll_back"),
    "transaction.check": phrase_in("act", "transaction.check"),
    "transaction.send_given_up": phrase_in("act", "transaction.send_given_up"),
    "deadletters.resend": phrase_in("act", "deadletters.resend"),
    "deadletters.discard": phrase_in("act", "deadletters.discard"),
    "job.cancel": phrase_in("act", "job.cancel"),
    "pipeline.ask": phrase_in("act", "pipeline.ask"),
    "pipeline.backfill": phrase_in("act", "pipeline.backfill"),
    "pipeline.rerun": phrase_in("act", "pipeline.rerun"),
    "pipeline.cancel": phrase_in("act", "pipeline.cancel"),
    "pipeline.want_stream": phrase_in("act", "pipeline.want_stream"),
    "alert.acknowledge": phrase_in("act", "alert.acknowledge"),
    "alert_rule.create": phrase_in("act", "alert_rule.create"),
    "alert_rule.change": phrase_in("act", "alert_rule.change"),
    "alert_rule.delete": phrase_in("act", "alert_rule.delete"),
    "silence.create": phrase_in("act", "silence.create"),
    "silence.end": phrase_in("act", "silence.end"),
    "alert_channel.create": phrase_in("act", "alert_channel.create"),
    "alert_channel.change": phrase_in("act", "alert_channel.change"),
    "alert_channel.delete": phrase_in("act", "alert_channel.delete"),
    "alert_channel.test": phrase_in("act", "alert_channel.test"),
    "messages.produce": phrase_in("act", "messages.produce"),
    "transaction.begin": phrase_in("act", "transaction.begin"),
    "account.create": phrase_in("act", "account.create"),
    "account.change": phrase_in("act", "account.change"),
    "account.password": phrase_in("act", "account.password"),
    "account.delete": phrase_in("act", "account.delete"),
    "grant.add": phrase_in("act", "grant.add"),
    "grant.remove": phrase_in("act", "grant.remove"),
    "token.issue": phrase_in("act", "token.issue"),
    "token.revoke": phrase_in("act", "token.revoke"),
    "session.sign_in": phrase_in("act", "session.sign_in"),
    "session.end": phrase_in("act", "session.end"),
    "session.end_all": phrase_in("act", "session.end_all"),
    "second_factor.on": phrase_in("act", "second_factor.on"),
    "second_factor.off": phrase_in("act", "second_factor.off"),
    "second_factor.codes": phrase_in("act", "second_factor.codes"),
    "admin.create": phrase_in("act", "admin.create"),
    "admin.change": phrase_in("act", "admin.change"),
    "admin.delete": phrase_in("act", "admin.delete"),
    "audit.cut": phrase_in("act", "audit.cut"),
    "audit.export": phrase_in("act", "audit.export"),
    "access.refused": phrase_in("act", "access.refused"),
}

KIND_WORDS: Final[Mapping[str, Text]] = {
    "account": phrase_in("object", "account"),
    "alert": phrase_in("object", "alert"),
    "alert channel": phrase_in("object", "alert channel"),
    "alert rule": phrase_in("object", "alert rule"),
    "audit": phrase_in("object", "audit"),
    "cluster": phrase_in("object", "cluster"),
    "dead letters": phrase_in("object", "dead letters"),
    "delayed message": phrase_in("object", "delayed message"),
    "grant": phrase_in("object", "grant"),
    "group": phrase_in("object", "group"),
    "job": phrase_in("object", "job"),
    "lock": phrase_in("object", "lock"),
    "pipeline job": phrase_in("object", "pipeline job"),
    "pipeline run": phrase_in("object", "pipeline run"),
    "pipeline stream": phrase_in("object", "pipeline stream"),
    "queue": phrase_in("object", "queue"),
    "request": phrase_in("object", "request"),
    "silence": phrase_in("object", "silence"),
    "token": phrase_in("object", "token"),
    "topic": phrase_in("object", "topic"),
    "transaction": phrase_in("object", "transaction"),
    "user": phrase_in("object", "user"),
}

DOOR_WORDS: Final[Mapping[str, Text]] = {
    "console": phrase_in("door", "console"),
    "api": phrase_in("door", "api"),
    "admin": phrase_in("door", "admin"),
    "command": phrase_in("door", "command"),
    "task": phrase_in("door", "task"),
    "data": phrase_in("door", "data"),
    "socket": phrase_in("door", "socket"),
}


def act(name: str) -> Text:
    """Return what an act is called; one that is not known any more by its name."""
    return ACT_WORDS.get(name, name)


def kind(name: str) -> Text:
    """Return what a kind of object is called."""
    return KIND_WORDS.get(name, name)


def door(name: str) -> Text:
    """Return what a door is called."""
    return DOOR_WORDS.get(name, name)
