"""What somebody entered to search a list, and why it cannot be searched for. Knows no list."""

from django.http import QueryDict
from rest_framework.exceptions import ValidationError


def given(query: QueryDict) -> QueryDict:
    """Return what was entered; a field that was left empty says nothing."""
    entered = QueryDict(mutable=True)
    for name in query:
        if value := query.get(name):
            entered[name] = str(value)
    return entered


def refusal_of(refusal: ValidationError) -> str:
    """Return a sentence about the first value that is refused."""
    detail = refusal.detail
    assert isinstance(detail, dict)
    name, texts = next(iter(detail.items()))
    text = texts[0] if isinstance(texts, list) else texts
    return f"Search by {name.replace('_', ' ')}: {text}."
