"""What a group is to the protocol: in order or not, how often, and how long between attempts.

Knows what was decided about groups; asks no engine.
"""

from google.protobuf.duration_pb2 import Duration

from apps.doors.grpc.protos import rocketmq_pb2 as pb
from apps.engine.retrydelays import delay_ms
from apps.engine.types import RETRY_MAX, CatalogSnapshot, GroupSpec, TopicSpec, TopicType

# A list of waits: the last one repeats, so more of them would say nothing new.
_DELAYS_MAX = 32


def is_fifo(catalog: CatalogSnapshot, group: str, topic: str) -> bool:
    """Say whether a group gets a topic's messages in order.

    What was decided about the group says so. About one that nobody decided about, the topic does:
    one that takes nothing but messages in order is meant to be read in order.
    """
    decided = catalog.groups.get(group)
    if decided is not None:
        return decided.ordered
    spec = catalog.topics.get(topic)
    return spec is not None and spec.type is TopicType.FIFO


def spec_of(catalog: CatalogSnapshot, group: str) -> GroupSpec:
    """Return what was decided about a group; the defaults where nothing was."""
    return catalog.groups.get(group) or GroupSpec(name=group)


def attempts_max(spec: GroupSpec) -> int:
    """Return how often a message is tried: RocketMQ's 17 times where nobody decided otherwise.

    Its clients count attempts in order themselves and need an end, also where ours have none.
    """
    return (RETRY_MAX if spec.failures_max is None else spec.failures_max) + 1


def backoff_of(
    spec: GroupSpec, levels_ms: tuple[int, ...], language: pb.Language
) -> pb.RetryPolicy:
    """Return how a consumer waits between attempts, in the words its client understands.

    Node's knows nothing but doubled waits, and Python's nothing but a list of them.
    """
    attempts = attempts_max(spec)
    delays = [delay_ms(spec, failures, levels_ms) for failures in range(min(attempts, _DELAYS_MAX))]
    if language == pb.NODE_JS:
        return pb.RetryPolicy(
            max_attempts=attempts,
            exponential_backoff=pb.ExponentialBackoff(
                initial=duration(delays[0]), max=duration(max(delays)), multiplier=2.0
            ),
        )
    return pb.RetryPolicy(
        max_attempts=attempts,
        customized_backoff=pb.CustomizedBackoff(next=[duration(delay) for delay in delays]),
    )


def duration(time_ms: int) -> Duration:
    """Return milliseconds as the protocol writes a length of time."""
    return Duration(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)


def ms_of(value: Duration) -> int:
    """Return a length of time in milliseconds, rounded down; negative ones stay so."""
    seconds: int = value.seconds
    nanos: int = value.nanos
    return seconds * 1000 + nanos // 1_000_000


def accepted_types(topic: TopicSpec) -> tuple[pb.MessageType, ...]:
    """Return which kinds of message a topic takes."""
    return _TYPES[topic.type]


_TYPES: dict[TopicType, tuple[pb.MessageType, ...]] = {
    TopicType.NORMAL: (pb.NORMAL,),
    TopicType.FIFO: (pb.FIFO,),
    TopicType.DELAY: (pb.DELAY,),
    TopicType.TRANSACTION: (pb.TRANSACTION,),
    TopicType.PRIORITY: (pb.PRIORITY,),
    TopicType.LITE: (pb.LITE,),
    # Whoever does not know a later kind knows those before it.
    TopicType.MIXED: (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION, pb.PRIORITY),
}
