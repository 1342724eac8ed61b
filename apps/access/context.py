"""What every template knows of who asks. Reads nothing that the request has not read already."""

from django.http import HttpRequest

from apps.access import asking


def signed_in(request: HttpRequest) -> dict[str, object]:
    """Return who is signed in; empty where access is off, or nobody is."""
    access = asking.access_of(request)
    name = "" if access.rights is None else access.rights.caller.principal.name
    return {
        "signed_in_as": name,
        "is_access_on": asking.is_on(),
        "sight": access.sight(),
    }
