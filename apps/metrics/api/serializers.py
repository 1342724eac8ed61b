"""Shapes of series on the wire. Rates are numbers; counts are strings: they have 64 bits."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, sampled_at
from apps.metrics.api.queries import SeriesQuery
from apps.metrics.resolutions import RESOLUTIONS
from apps.metrics.series import RATES, Point, Series, Unit

_UNITS = [unit.value for unit in Unit]
_RESOLUTIONS = [resolution.seconds for resolution in RESOLUTIONS]
# A thousandth of a message a second is three messages an hour.
_RATE_DECIMALS = 3


@extend_schema_field({"type": ["number", "string", "null"]})
class ValueField(serializers.Field[Any, Any, Any, Any]):
    """A number for rates, an integer as a string for counts; null is unknown."""


class PointDocument(serializers.Serializer[Any]):
    """A series in one slot. A slot without a sample has no point."""

    at = serializers.DateTimeField(help_text="Beginning of the slot.")
    value = ValueField(help_text="Mean of a rate, newest of a count.")
    min = ValueField(help_text="Lowest within the slot; unknown of a sum over several rows.")
    max = ValueField(help_text="Highest within the slot; unknown of a sum over several rows.")


class SeriesDocument(serializers.Serializer[Any]):
    """Points of a series by time."""

    name = serializers.CharField()
    topic = serializers.CharField(allow_null=True, help_text="Null is all topics.")
    group = serializers.CharField(allow_null=True, help_text="Null is all groups.")
    resolution_s = serializers.ChoiceField(_RESOLUTIONS)
    unit = serializers.ChoiceField(_UNITS)
    points = PointDocument(many=True)
    sampled_at = serializers.DateTimeField()


class SeriesDescription(serializers.Serializer[Any]):
    """A series there is."""

    name = serializers.CharField()
    unit = serializers.ChoiceField(_UNITS)
    meaning = serializers.CharField()
    by_topic = serializers.BooleanField(help_text="Whether it is kept by topic.")
    by_group = serializers.BooleanField(help_text="Whether it is kept by group.")


class SeriesList(serializers.Serializer[Any]):
    """All series."""

    items = SeriesDescription(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_series(
    series: Series, query: SeriesQuery, points: Sequence[Point]
) -> dict[str, object]:
    """Build the JSON shape of a series."""
    return {
        "name": series.name,
        "topic": query.topic,
        "group": query.group,
        "resolution_s": query.resolution.seconds,
        "unit": series.unit.value,
        "points": [
            {
                "at": rfc3339(moment(point.at_ms)),
                "value": _value(series.unit, point.value),
                "min": _value(series.unit, point.low),
                "max": _value(series.unit, point.high),
            }
            for point in points
        ],
        "sampled_at": sampled_at(),
    }


def rendered_description(series: Series) -> dict[str, object]:
    """Build the JSON shape of what a series is."""
    return {
        "name": series.name,
        "unit": series.unit.value,
        "meaning": series.meaning,
        "by_topic": series.by_topic,
        "by_group": series.by_group,
    }


def _value(unit: Unit, value: float | None) -> float | str | None:
    if value is None:
        return None
    return round(value, _RATE_DECIMALS) if unit in RATES else str(value)
