"""What somebody entered to search a list, and why it cannot be searched for. Knows no list."""

from django.http import QueryDict
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError

from apps.console.refusals import field, value_refused


def given(query: QueryDict) -> QueryDict:
    """Return what was entered; a field that was left empty says nothing."""
    entered = QueryDict(mutable=True)
    for name in query:
        if value := query.get(name):
            entered[name] = str(value)
    return entered


def refusal_of(refusal: ValidationError) -> str:
    """Return a sentence about the first value that is refused."""
    name, why = value_refused(refusal)
    return _("Search by %(field)s: %(why)s.") % {"field": field(name), "why": why}
