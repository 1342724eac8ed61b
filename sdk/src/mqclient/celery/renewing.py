"""Messages that never get finished, stored anew. Knows the broker's limit, not what they do.

Celery has a message handed out for as long as nobody acknowledges it; the broker makes it a dead
letter after the group's last try, which is the 17th failure where nobody decided otherwise. Workers
that end, are killed or give back what they received ahead are such failures. So a message that was
handed out often is stored again as a new one, behind the others of its lane, before that.
"""

import logging

from mqclient.celery.client import Client
from mqclient.celery.holding import AGAIN
from mqclient.errors import MqError
from mqclient.wire.records import Message

logger = logging.getLogger("mqclient")

# Well below the broker's 16 failures, so that storing anew may fail a few times itself.
ATTEMPTS_MAX = 8


def renewed(client: Client, record: Message) -> bool:
    """Store a message anew that was handed out too often; return whether it is to be settled here.

    Where that fails the message is delivered as it is, and the next receiver tries.
    """
    if (record.delivery_attempt or 1) <= ATTEMPTS_MAX:
        return False
    topic = record.stored_topic
    copy = client.record(
        topic,
        record.queue,
        record.body,
        tag=record.tag,
        key=next(iter(record.keys), None),
        properties={AGAIN: "1"},
    )
    try:
        client.run(client.storing(topic, record.queue, [copy], ack=client.options.ack))
    except MqError as error:
        logger.warning("%r cannot be stored anew: %s", record, error)
        return False
    logger.warning(
        "%r was handed out %d times and not acknowledged; it is stored anew",
        record, record.delivery_attempt,
    )  # fmt: skip
    return True
