"""The page that finds messages, and its files. Knows selectors; looking changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from rest_framework.exceptions import ValidationError

from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page
from apps.console.pages.searching import given, refusal_of
from apps.console.pages.times import entered_time_ms
from apps.console.refusals import sentence_of
from apps.core.queries import asked_number
from apps.engine.errors import EngineError
from apps.engine.limits import QUEUE_COUNT_MAX
from apps.messages import asked, exporting, grouping, selectors
from apps.messages.asked import Asked, Meaning
from apps.messages.selectors import Found, Wanted

FIELDS = ("q", "as", "topic", "tag", "key", "queue", "from", "to", "filter", "copies")
FOLLOW_S = 5
# More names than anybody looks through; the field takes any other.
TOPICS_OFFERED = 500
_LOG_OFFSET_MAX = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """What a query says: the search, and the pairs that say it again."""

    wanted: Wanted
    pairs: list[tuple[str, str]]
    is_empty: bool


@asking_page
def search(posted: Posted, request: HttpRequest) -> Page:
    """Show the form, and what it finds, the newest first."""
    return found_page(posted, request, template="console/messages/search.html")


def found_page(
    posted: Posted, request: HttpRequest, *, template: str, topic: str = "", **values: object
) -> Page:
    """Describe a page that searches all topics, or only one, which then needs no field."""
    query = given(request.GET)
    found, trouble, entered = None, "", None
    try:
        entered = entered_of(query, topic=topic)
        if not entered.is_empty:
            found = selectors.find(entered.wanted)
    except ValidationError as refusal:
        trouble = refusal_of(refusal)
    except (ValueError, EngineError) as error:
        trouble = sentence_of(error)
    pairs = [(name, str(query[name])) for name in FIELDS if name in query]
    now_ms = posted.snapshot["sampled_at_ms"]
    is_following = "follow" in query and "cursor" not in query
    return Page(
        template=template,
        values={
            "entered": {name: query.get(name, "") for name in FIELDS},
            "meanings": _meanings(),
            "topics": [row["name"] for row in posted.snapshot["topics"]][:TOPICS_OFFERED],
            "meaning": "" if entered is None else _meaning_text(entered.wanted.asked),
            "found": found,
            "families": _families(found, now_ms),
            "count": 0 if found is None else len(found.messages),
            "trouble": trouble,
            "search": urlencode(pairs),
            "export_query": urlencode([*pairs, ("topic", topic)] if topic else pairs),
            "next_query": _next_query(found, pairs),
            "is_first": "cursor" not in query,
            "is_following": is_following,
            "follow_s": FOLLOW_S,
            "follow_query": urlencode([*pairs, ("follow", "on")]),
            "export_messages_max": exporting.MESSAGES_MAX,
            "export_bytes_max": exporting.BYTES_MAX,
            "topic": shown.head_of(topic, _type_of(posted, topic)),
            **values,
        },
    )


def _type_of(posted: Posted, name: str) -> str | None:
    rows = posted.snapshot["topics"]
    return next((row["type"] for row in rows if row["name"] == name), None)


def entered_of(query: QueryDict, *, topic: str = "") -> Entered:
    """Return what a query asks for.

    Raises ValidationError or ValueError, with what to tell whoever entered it.
    """
    said = str(query.get("as", ""))
    meaning = Meaning(said) if said in set(Meaning) else None
    zone = timezone.get_current_timezone()
    text = asked.read(str(query.get("q", "")), meaning, zone=zone)
    named = topic or str(query.get("topic", "")).strip()
    wanted = Wanted(
        asked=text,
        topic=named,
        tag=query.get("tag"),
        key=query.get("key"),
        queue=asked_number(query, "queue", lowest=0, highest=QUEUE_COUNT_MAX - 1),
        from_ms=entered_time_ms(query, "from"),
        to_ms=entered_time_ms(query, "to"),
        condition=query.get("filter"),
        before=asked_number(query, "cursor", lowest=0, highest=_LOG_OFFSET_MAX),
        with_copies=query.get("copies") != "off",
    )
    is_empty = not topic and wanted == Wanted(before=wanted.before, with_copies=wanted.with_copies)
    pairs = [(name, str(query[name])) for name in FIELDS if name in query]
    return Entered(wanted=wanted, pairs=pairs, is_empty=is_empty)


@require_safe
@never_cache
def export(request: HttpRequest) -> HttpResponseBase:
    """Return what a search finds as a file, up to a limit that the page names."""
    query = given(request.GET)
    kind = exporting.FORMATS.get(str(query.get("format", "")))
    try:
        if kind is None:
            raise ValueError(_("a file is written as csv or jsonl"))
        wanted = entered_of(query).wanted
        # What cannot be asked is told here and not in a file that breaks off.
        selectors.find(replace(wanted, messages_max=1))
    except (ValidationError, ValueError) as error:
        text = refusal_of(error) if isinstance(error, ValidationError) else sentence_of(error)
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    except EngineError as error:
        status = 503 if error.retriable else 400
        return HttpResponse(
            sentence_of(error), status=status, content_type="text/plain; charset=utf-8"
        )
    return exporting.answer(kind, wanted)


@asking_page
def by_id(posted: Posted, _request: HttpRequest, *, message_id: str) -> Page:
    """Say that no message has an id; where one has, `leading_there` has answered before."""
    del posted
    return Page(
        template="console/messages/none.html", values={"message_id": message_id}, status=404
    )


@require_safe
@never_cache
def leading_there(request: HttpRequest, *, message_id: str) -> HttpResponse:
    """Lead from an id to its message, or to the search where several have it."""
    try:
        text = asked.read(message_id, Meaning.ID)
        found = selectors.find(Wanted(asked=text)).messages if text.text else ()
    except (ValueError, EngineError):
        return HttpResponseRedirect(_search_path(message_id))
    heads = [one.head for one in grouping.families(found) if one.head is not None]
    if not found:
        return by_id(request, message_id=message_id)
    if len(heads) != 1:
        return HttpResponseRedirect(_search_path(message_id))
    record = heads[0].record
    return HttpResponseRedirect(shown.message_path(record.topic, record.queue, record.queue_offset))


def _search_path(message_id: str) -> str:
    return f"/messages?{urlencode({'q': message_id, 'as': Meaning.ID.value})}"


def _families(found: Found | None, now_ms: int) -> list[shown.Row]:
    if found is None:
        return []
    return [shown.family_row(one, now_ms=now_ms) for one in grouping.families(found.messages)]


def _next_query(found: Found | None, pairs: list[tuple[str, str]]) -> str:
    if found is None or found.next_before is None:
        return ""
    return urlencode([*pairs, ("cursor", found.next_before)])


def _meanings() -> Mapping[str, str]:
    return {
        Meaning.ID.value: _("message id"),
        Meaning.KEY.value: _("key"),
        Meaning.PLACE.value: _("queue:offset"),
        Meaning.TIME.value: _("time"),
    }


def _meaning_text(wanted: Asked) -> str:
    """Return what the text in the box was taken for; empty where it is empty."""
    if wanted.meaning is Meaning.PLACE:
        return _("Read as queue %(queue)d, offset %(offset)d.") % {
            "queue": wanted.queue or 0,
            "offset": wanted.queue_offset or 0,
        }
    if wanted.meaning is Meaning.TIME:
        return _("Read as a time: stored from %(first)s on, before %(last)s.") % {
            "first": shown.stamp(wanted.from_ms),
            "last": shown.stamp(wanted.to_ms),
        }
    if wanted.meaning is Meaning.ID:
        return _("Read as a message id.")
    return _("Read as a key.") if wanted.meaning is Meaning.KEY else ""
