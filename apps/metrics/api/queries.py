"""What callers ask of a series: read from the query string, and refused where it has no answer."""

from dataclasses import dataclass

from django.http import QueryDict
from rest_framework.exceptions import ValidationError

from apps.core.queries import asked_name, asked_time_ms
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
    to_ms = asked_time_ms(query, "to")
    to_ms = now_ms if to_ms is None else to_ms
    from_ms = asked_time_ms(query, "from")
    from_ms = to_ms - HOUR.ms if from_ms is None else from_ms
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
    if kind in query and not is_kept:
        raise ValidationError({kind: [f"{series.name} is not kept by {kind}"]})
    return asked_name(query, kind)


def _resolution(query: QueryDict) -> Resolution | None:
    text = query.get("resolution")
    if text is None:
        return None
    if text not in _BY_SECONDS:
        raise ValidationError({"resolution": [f"must be one of {', '.join(_BY_SECONDS)}"]})
    return _BY_SECONDS[text]
