"""Pages of rows, newest first. Knows that their cursor is the last row's number."""

from rest_framework.exceptions import ValidationError

from apps.core.pagination import PageRequest

# A larger one has no column to be compared with.
_NUMBER_MAX = 2**63 - 1


def row_before(wanted: PageRequest) -> int | None:
    """Return the row a page comes after; None for the first page.

    Raises ValidationError for a cursor of another list.
    """
    if not wanted.after:
        return None
    is_number = wanted.after.isascii() and wanted.after.isdigit() and len(wanted.after) <= 19
    if not is_number or int(wanted.after) > _NUMBER_MAX:
        raise ValidationError({"cursor": ["was not handed out by this server"]})
    return int(wanted.after)
