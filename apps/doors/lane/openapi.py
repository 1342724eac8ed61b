"""The lane in the OpenAPI document: how it is opened. What it carries is no HTTP."""

from apps.doors.http import operations
from apps.doors.http.operations import Document
from apps.doors.lane.app import PATH
from apps.doors.lane.frames import PROTOCOL


def paths() -> Document:
    """Return the `paths` object of the lane."""
    operation: Document = {
        "operationId": "data_lane",
        "summary": "Go on without HTTP: sends in frames on this connection",
        "description": f"Takes `Connection: Upgrade` and `Upgrade: {PROTOCOL.decode()}` only; "
        "docs/LANE.md has the frames.",
        "parameters": [],
        "responses": {
            "101": {"description": "The connection speaks the lane's protocol."},
            "426": operations.problem("Code `upgrade_required`: no protocol of the lane's asked."),
            "default": operations.problem("A problem document."),
        },
    }
    return {PATH: {"get": operation}}
