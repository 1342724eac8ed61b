"""Which batches ask for more than to be stored: found by a look at their properties.

Knows RocketMQ's property names and bytes; not what they ask for.
"""

import re

from apps.engine.types import Special

_NAMES = re.compile(
    rb"\x02(?:(DELAY|TIMER_DELAY_SEC|TIMER_DELAY_MS|TIMER_DELIVER_MS)|(TRAN_MSG)"
    rb"|(PRODUCER_SEQ))\x01"
)
_KINDS = (Special.DELAY, Special.TRANSACTION, Special.SEQUENCE)


def special_of(properties: bytes) -> Special:
    """Return what the property sections of a batch, end to end, ask for.

    Each section must end in 0x02: a name behind one that does not is passed over.
    """
    # Looking for four texts, one after the other, costs a tenth of a look with the pattern, and one
    # of them is in every section that asks for something.
    if (
        b"DELAY" not in properties
        and b"TIMER_DELIVER_MS" not in properties
        and b"TRAN_MSG" not in properties
        and b"PRODUCER_SEQ" not in properties
    ):
        return Special.NOTHING
    found = Special.NOTHING
    # With 0x02 in front of the first name too, the pattern need not look at every byte.
    for groups in set(_NAMES.findall(b"\x02" + properties)):
        for kind, name in zip(_KINDS, groups, strict=True):
            if name:
                found |= kind
    return found
