"""`mq recall`: one delayed message. Knows the producer and the output stream."""

import argparse
import sys

from mqclient.errors import AlreadyCancelled, AlreadyDelivered, UnknownHandle
from mqclient.producing.producer import Producer
from mqclient.values import Recalled


def recall(arguments: argparse.Namespace) -> None:
    """Print what became of the message; raise MqError where that is not what was wanted."""
    with Producer(arguments.server, token=arguments.token) as producer:
        verb = producer.deliver_now if arguments.now else producer.recall
        outcome = verb(arguments.handle)
    if outcome is Recalled.UNKNOWN:
        raise UnknownHandle("the broker knows no delayed message of this handle")
    if outcome is Recalled.DELIVERED and not arguments.now:
        raise AlreadyDelivered("the message was delivered before")
    if outcome is Recalled.CANCELLED and arguments.now:
        raise AlreadyCancelled("the message was taken back before")
    sys.stdout.write(f"{outcome}\n")
