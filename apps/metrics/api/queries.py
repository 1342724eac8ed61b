"""What callers ask of a series: read from the query string, and refused where it has no answer."""

from dataclasses import dataclass

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import ValidationError

from apps.core.moments import moment, ms_of
from apps.engine import limits
from apps.metrics.resolutions import HOUR, POINTS_MAX, RESOLUTIONS, Resolution, best_resolution
from apps.metrics.series import Series

_BY_SECONDS = {str(resolution.seconds): resolution for resolution in RESOLUTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Which part of a series is wanted; topic and group None are the totals."""

    topic: str | None
    group: str | None
    from_ms: int
    to_ms: int
    resolution: Resolution


def series_query(series: Series, query: QueryDict, *, now_ms: int) -> SeriesQuery:
    """Read `topic`, `group`, `from`, `to` and `resolution`; the last hour where no time is given.

    Raises ValidationError for a value that cannot be read, for a topic or group the series is not
    kept of, and for more points than an answer holds.
    """
    to_ms = _time_ms(query, "to", default_ms=now_ms)
    from_ms = _time_ms(query, "from", default_ms=to_ms - HOUR.ms)
    if from_ms >= to_ms:
        raise ValidationError({"from": ["must be before `to`"]})
    resolution = _resolution(query) or best_resolution(from_ms=from_ms, to_ms=to_ms, now_ms=now_ms)
    if to_ms - from_ms > POINTS_MAX * resolution.ms:
        raise ValidationError(
            {"from": [f"an answer has at most {POINTS_MAX} points of {resolution.seconds} s each"]}
        )
    return SeriesQuery(
        topic=_name(query, "topic", is_kept=series.by_topic, series=series),
        group=_name(query, "group", is_kept=series.by_group, series=series),
        from_ms=from_ms,
        to_ms=to_ms,
        resolution=resolution,
    )


def _name(query: QueryDict, kind: str, *, is_kept: bool, series: Series) -> str | None:
    name = query.get(kind)
    if name is None:
        return None
    if not is_kept:
        raise ValidationError({kind: [f"{series.name} is not kept by {kind}"]})
    if not limits.NAME_PATTERN.fullmatch(name):
        raise ValidationError({kind: [f"is not a {kind}'s name"]})
    return name


def _resolution(query: QueryDict) -> Resolution | None:
    text = query.get("resolution")
    if text is None:
        return None
    if text not in _BY_SECONDS:
        raise ValidationError({"resolution": [f"must be one of {', '.join(_BY_SECONDS)}"]})
    return _BY_SECONDS[text]


def _time_ms(query: QueryDict, name: str, *, default_ms: int) -> int:
    text = query.get(name)
    if text is None:
        return default_ms
    try:
        # Longer digit strings are refused before int() would have to read them.
        if text.isascii() and text.isdigit() and len(text) <= 15:
            return ms_of(moment(int(text)))
        found = parse_datetime(text)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        raise ValidationError(
            {name: ["must be RFC 3339 with an offset, or milliseconds since 1970"]}
        )
    return ms_of(found)
