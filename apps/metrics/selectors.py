"""Series as read from the rows. A slot without a row has no point: the gap can be seen."""

from django.db.models import Count, Max, QuerySet, Sum

from apps.core.moments import moment, ms_of
from apps.metrics.models import GroupSample, Sample, StoreSample, TopicSample
from apps.metrics.resolutions import FINE, HOUR, MINUTE, Resolution
from apps.metrics.series import Point, Series, Totals


def points(
    series: Series,
    *,
    topic: str | None,
    group: str | None,
    resolution: Resolution,
    from_ms: int,
    to_ms: int,
) -> list[Point]:
    """Return the points of the slots that begin from `from_ms` up to, not with, `to_ms`.

    None for topic or group means all of them; both None are the totals. Where several rows are
    added up, their extremes were at different moments, so those of the sum are unknown; the
    highest of several highest ones is known.
    """
    rows = _rows(series, topic, group).filter(
        resolution_s=resolution.seconds, at__gte=moment(from_ms), at__lt=moment(to_ms)
    )
    name = series.name
    joined = Max if series.is_highest else Sum
    found = (
        rows.order_by("at")
        .values("at")
        .annotate(
            value=joined(name),
            low=joined(f"{name}_min"),
            high=joined(f"{name}_max"),
            row_count=Count("pk"),
        )
        .values_list("at", "value", "low", "high", "row_count")
    )
    is_exact = resolution is FINE
    return [
        Point(
            at_ms=ms_of(at),
            value=value,
            low=low if is_exact or row_count == 1 else None,
            high=high if is_exact or series.is_highest or row_count == 1 else None,
        )
        for at, value, low, high, row_count in found
    ]


def totals_of_last_hour(*, now_ms: int) -> list[Totals]:
    """Return the totals of the last hour by time: minutes, and samples where no minute is yet."""
    minutes = _totals(MINUTE, from_ms=now_ms - HOUR.ms, to_ms=now_ms)
    fine_from_ms = minutes[-1].at_ms + MINUTE.ms if minutes else now_ms - HOUR.ms
    return minutes + _totals(FINE, from_ms=fine_from_ms, to_ms=now_ms)


def _rows(series: Series, topic: str | None, group: str | None) -> QuerySet[Sample]:
    if topic is None and group is None:
        return StoreSample.objects.all()
    if not series.by_group:
        return TopicSample.objects.filter(topic=topic)
    rows = GroupSample.objects.all()
    if topic is not None:
        rows = rows.filter(topic=topic)
    if group is not None:
        rows = rows.filter(group=group)
    return rows


def _totals(resolution: Resolution, *, from_ms: int, to_ms: int) -> list[Totals]:
    rows = StoreSample.objects.filter(
        resolution_s=resolution.seconds, at__gte=moment(from_ms), at__lt=moment(to_ms)
    ).order_by("at")
    return [
        Totals(
            at_ms=ms_of(at),
            span_ms=resolution.ms,
            send_rate=send_rate,
            send_rate_max=send_rate_max,
            consume_rate=consume_rate,
            consume_rate_max=consume_rate_max,
            lag_max=lag_max,
        )
        for at, send_rate, send_rate_max, consume_rate, consume_rate_max, lag_max in (
            rows.values_list(
                "at", "send_rate", "send_rate_max", "consume_rate", "consume_rate_max", "lag_max"
            )
        )
    ]
