"""The closed list of acts that are written down, and where each takes place. Pure: no row.

An act that is missing here cannot be recorded: whoever adds one adds its line first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType


class Place(Enum):
    """What an act changes, and so how it is kept from going without a trace."""

    DATABASE = auto()
    """Rows: the entry is written in the transaction of the change."""
    STEPS = auto()
    """The engine, which takes part in no transaction, or rows in several: an entry before it, and
    one with the outcome."""
    NOTHING = auto()
    """Nothing: something that was refused before any part of the product began with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One kind of act: `object.verb`."""

    name: str
    place: Place


_PLACES: Mapping[str, Place] = MappingProxyType(
    {
        "topic.create": Place.DATABASE,
        "topic.change": Place.DATABASE,
        "topic.delete": Place.DATABASE,
        "topic.expire": Place.DATABASE,
        "group.create": Place.DATABASE,
        "group.change": Place.DATABASE,
        "lock.release": Place.STEPS,
        "queue.suspend": Place.STEPS,
        "queue.resume": Place.STEPS,
        "queue.skip": Place.STEPS,
        "queue.park": Place.STEPS,
        "offsets.apply": Place.STEPS,
        "offsets.undo": Place.STEPS,
        "delayed.cancel": Place.STEPS,
        "delayed.deliver_now": Place.STEPS,
        "transaction.commit": Place.STEPS,
        "transaction.roll_back": Place.STEPS,
        "transaction.check": Place.STEPS,
        "transaction.send_given_up": Place.STEPS,
        "deadletters.resend": Place.DATABASE,
        "deadletters.discard": Place.DATABASE,
        "job.cancel": Place.DATABASE,
        "pipeline.ask": Place.DATABASE,
        "pipeline.backfill": Place.STEPS,
        "pipeline.rerun": Place.DATABASE,
        "pipeline.cancel": Place.DATABASE,
        "pipeline.want_stream": Place.DATABASE,
        "alert.acknowledge": Place.DATABASE,
        "alert_rule.create": Place.DATABASE,
        "alert_rule.change": Place.DATABASE,
        "alert_rule.delete": Place.DATABASE,
        "silence.create": Place.DATABASE,
        "silence.end": Place.DATABASE,
        "alert_channel.create": Place.DATABASE,
        "alert_channel.change": Place.DATABASE,
        "alert_channel.delete": Place.DATABASE,
        "alert_channel.test": Place.DATABASE,
        "messages.produce": Place.STEPS,
        "transaction.begin": Place.STEPS,
        "account.create": Place.DATABASE,
        "account.change": Place.DATABASE,
        "account.password": Place.DATABASE,
        "account.delete": Place.DATABASE,
        "grant.add": Place.DATABASE,
        "grant.remove": Place.DATABASE,
        "token.issue": Place.DATABASE,
        "token.revoke": Place.DATABASE,
        "session.sign_in": Place.DATABASE,
        "session.end": Place.DATABASE,
        "session.end_all": Place.DATABASE,
        "second_factor.on": Place.DATABASE,
        "second_factor.off": Place.DATABASE,
        "second_factor.codes": Place.DATABASE,
        "admin.create": Place.DATABASE,
        "admin.change": Place.DATABASE,
        "admin.delete": Place.DATABASE,
        "audit.export": Place.DATABASE,
        "audit.cut": Place.DATABASE,
        "access.refused": Place.NOTHING,
    }
)

ACTS: Mapping[str, Act] = MappingProxyType(
    {name: Act(name=name, place=place) for name, place in _PLACES.items()}
)


def act_of(name: str) -> Act:
    """Return an act by its name; raise KeyError for one that the list does not have."""
    return ACTS[name]
