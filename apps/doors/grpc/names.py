"""Topics, groups and endpoints as the protocol names them. Knows names and a namespace, no engine.

A name in a namespace is `namespace%name` everywhere else in the product, as in RocketMQ.
"""

import ipaddress
import re

from apps.access.policy.resources import RESERVED_PREFIXES
from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.doors.grpc.statuses import Illegal
from apps.engine import limits
from apps.engine.codec.layout import (
    DEAD_LETTER_PREFIX,
    GIVEN_UP_TOPIC,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
)

# A group's retry topic must be a name as well.
GROUP_CHARACTERS_MAX = limits.NAME_CHARACTERS_MAX - len(RETRY_PREFIX)
_SYSTEM_TOPICS = frozenset({GIVEN_UP_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, SCHEDULE_TOPIC})
# RocketMQ's own groups; nobody's application may take part in one.
_SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS",
    }
)  # fmt: skip
_DOTTED_QUAD = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_ADDRESSES_MAX = 64


def topic_of(resource: pb.Resource, namespace: str) -> str:
    """Return the topic a resource names; raise Illegal for what can be none."""
    name = _name_of(resource, namespace)
    if limits.NAME_PATTERN.fullmatch(name) is None:
        raise Illegal(
            pb.ILLEGAL_TOPIC,
            f"a topic's name is 1 to {limits.NAME_CHARACTERS_MAX} of letters, digits, %, |, _ "
            "and -, its namespace included",
        )
    return name


def writable_topic_of(resource: pb.Resource, namespace: str) -> str:
    """Return the topic messages are for; raise Illegal for one of the product's own."""
    name = topic_of(resource, namespace)
    if name in _SYSTEM_TOPICS or name.startswith(RESERVED_PREFIXES):
        raise Illegal(pb.ILLEGAL_TOPIC, f"topic {name} is the product's own")
    return name


def group_of(resource: pb.Resource, namespace: str) -> str:
    """Return the group a resource names; raise Illegal for what can be none."""
    name = _name_of(resource, namespace)
    if limits.NAME_PATTERN.fullmatch(name) is None or len(name) > GROUP_CHARACTERS_MAX:
        raise Illegal(
            pb.ILLEGAL_CONSUMER_GROUP,
            f"a group's name is 1 to {GROUP_CHARACTERS_MAX} of letters, digits, %, |, _ and -, "
            "its namespace included",
        )
    if resource.name in _SYSTEM_GROUPS or name.startswith(SYSTEM_PREFIX):
        raise Illegal(pb.ILLEGAL_CONSUMER_GROUP, f"group {resource.name} is the product's own")
    return name


def resource_of(name: str, namespace: str) -> pb.Resource:
    """Return a name as the protocol has it, for a client that works in a namespace."""
    if namespace and name.startswith(f"{namespace}%"):
        return pb.Resource(resource_namespace=namespace, name=name[len(namespace) + 1 :])
    return pb.Resource(name=name)


def endpoints_of(asked: pb.Endpoints) -> pb.Endpoints:
    """Return the endpoints that clients are sent to: those they came by.

    So network address translation and a second port need no settings. Raises Illegal where there
    are none that could be told on: names are one address only.
    """
    addresses = list(asked.addresses)
    if not 0 < len(addresses) <= _ADDRESSES_MAX or not all(
        address.host and 0 < address.port < 65_536 for address in addresses
    ):
        raise Illegal(pb.ILLEGAL_ACCESS_POINT, "the request names no endpoint of the client's")
    schemes = {_scheme_of(address.host) for address in addresses}
    scheme = schemes.pop() if len(schemes) == 1 else pb.DOMAIN_NAME
    if scheme == pb.DOMAIN_NAME:
        addresses = addresses[:1]
    return pb.Endpoints(scheme=scheme, addresses=addresses)


def is_dead_letters(topic: str) -> bool:
    """Say whether a topic has the dead letters of a group."""
    return topic.startswith(DEAD_LETTER_PREFIX)


def _name_of(resource: pb.Resource, namespace: str) -> str:
    # Some clients name the namespace in a header only, and in some calls both ways.
    within = resource.resource_namespace or namespace
    name: str = resource.name
    if not within or not name or name.startswith(f"{within}%"):
        return name
    return f"{within}%{name}"


def _scheme_of(host: str) -> pb.AddressScheme:
    if _DOTTED_QUAD.fullmatch(host):
        return pb.IPv4
    try:
        ipaddress.IPv6Address(host.strip("[]"))
    except ValueError:
        return pb.DOMAIN_NAME
    return pb.IPv6
