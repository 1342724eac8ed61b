"""A subscription's filter, compiled once. Knows tags and conditions; no queues, no log."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from apps.engine.codec.properties import TAGS
from apps.engine.codec.tags import filter_tags, tag_hash
from apps.engine.errors import InvalidFilter
from apps.engine.filters.evaluate import Test, compiled
from apps.engine.filters.parser import parse
from apps.engine.limits import FILTER_CHARACTERS_MAX
from apps.engine.types import FilterType

# The largest filter takes 0.4 MB compiled, a usual one 2 KB.
_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a subscription takes, in two stages: by the entries of a queue, and by properties.

    `hashes` are the tag hashes it may take, None where it takes any tag. Two tags may share a hash:
    `Aa` and `BB` do.
    """

    hashes: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    condition: Test | None = None

    @property
    def reads_properties(self) -> bool:
        """Say whether entries do not tell what it takes, so that records must be read."""
        return self.condition is not None

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Say whether it takes a message that has these properties."""
        if self.condition is not None:
            return self.condition(properties) is True
        return self.tags is None or properties.get(TAGS, "") in self.tags


@lru_cache(maxsize=_KEPT)
def compile_filter(text: str, kind: FilterType = FilterType.TAG) -> Filter:
    """Return the filter a text states; the last 256 different ones are kept compiled.

    TAG: `A || B`, `*` or nothing for all messages. SQL92: a condition on properties. Raises
    InvalidFilter, naming the character at fault.
    """
    if kind is FilterType.SQL92:
        return Filter(condition=compiled(parse(text)))
    if len(text) > FILTER_CHARACTERS_MAX:
        raise InvalidFilter(f"a filter has at most {FILTER_CHARACTERS_MAX} characters")
    tags = filter_tags(text)
    if tags is None:
        return Filter()
    return Filter(hashes=frozenset(map(tag_hash, tags)), tags=frozenset(tags))
