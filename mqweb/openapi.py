"""Adds data plane and lane to the OpenAPI document: all planes are one API to users."""

from typing import Any

from apps.doors.http import openapi
from apps.doors.lane import openapi as lane_openapi

Document = dict[str, Any]


def add_data_plane(result: Document, **_: Any) -> Document:
    """Merge paths and components of the HTTP door; raise ValueError where both claim a row."""
    for operations in result.get("paths", {}).values():
        for operation in operations.values():
            # One of them is enough, and with access off nothing is needed: the empty one.
            ways = [name for way in operation.get("security", ()) for name in way]
            operation["security"] = [*({name: []} for name in ways), {}]
    for path, operations in (openapi.paths() | lane_openapi.paths()).items():
        for operation in operations.values():
            operation.setdefault("security", [{"bearer": []}, {}])
        _merge(result.setdefault("paths", {}).setdefault(path, {}), operations, path)
    for kind, members in openapi.components().items():
        known = result.setdefault("components", {}).setdefault(kind, {})
        for name, member in members.items():
            # Both sides describe the problem document, and Django's description stands.
            known.setdefault(name, member)
    return result


def _merge(target: Document, source: Document, path: str) -> None:
    if twice := target.keys() & source.keys():
        raise ValueError(f"{path}: {', '.join(sorted(twice))} described twice")
    target.update(source)
