"""AMQP's rules from an exchange and a routing key to queues. Knows text only."""

from dataclasses import dataclass
from functools import lru_cache

DIRECT, TOPIC, FANOUT = "direct", "topic", "fanout"
EXCHANGE_TYPES = frozenset((DIRECT, TOPIC, FANOUT))


@dataclass(frozen=True, slots=True)
class ExchangeKind:
    """What an exchange was declared as."""

    type: str = DIRECT
    is_durable: bool = True

    def routes(self, binding_key: str, routing_key: str) -> bool:
        """Tell whether a message of this routing key goes to a queue bound by this key."""
        if self.type == FANOUT:
            return True
        if self.type == TOPIC:
            return is_match(binding_key, routing_key)
        return binding_key == routing_key


@lru_cache(maxsize=4096)
def is_match(pattern: str, routing_key: str) -> bool:
    """Match words between dots: `*` stands for one of them, `#` for any number, none too."""
    return _is_match(tuple(pattern.split(".")), tuple(routing_key.split(".")))


def _is_match(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    # By rows of the table of all prefixes, so that many `#` cost no more than one.
    reached = [True] + [False] * len(words)
    for part in pattern:
        if part == "#":
            row, is_open = [], False
            for was_reached in reached:
                is_open = is_open or was_reached
                row.append(is_open)
        else:
            row = [False] + [
                was_reached and part in ("*", word)
                for was_reached, word in zip(reached, words, strict=False)
            ]
        reached = row
    return reached[-1]
