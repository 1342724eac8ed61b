"""The pages that send messages: the form, and what came of it. Knows one service."""

import re
from urllib.parse import urlencode

from django.contrib import messages as notices
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.access.asking import access_of
from apps.access.policy import Action, topic
from apps.console import messages as shown
from apps.console.board import Posted
from apps.console.pages.common import Page, asking_page, no_engine, posted_for
from apps.console.refusals import field as field_words
from apps.console.refusals import sentence_of, why
from apps.core.actors import actor_of
from apps.core.phrases import read as in_words
from apps.engine.errors import EngineError
from apps.engine.limits import BATCH_MESSAGES_MAX, DELAY_LEVELS_MS
from apps.engine.transactiontypes import Outcome
from apps.messages import forms, selectors, services
from apps.messages.asked import Meaning, read
from apps.messages.forms import ProduceForm
from apps.messages.seen import Seen
from apps.messages.services import Draft, Sent
from apps.transactions import selectors as pending
from apps.transactions import services as decisions

PLACES_SHOWN = 100
_RUNS_MAX = 200
_PLACE = re.compile(r"([0-9]{1,4}):([0-9]{1,18})(?:-([0-9]{1,18}))?")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def produce(request: HttpRequest, *, name: str) -> HttpResponse:
    """Show the form, or send what was entered and lead to what came of it.

    A form that is refused comes back as it was filled in, with why.
    """
    posted = posted_for(request)
    if posted is None:
        return no_engine(request)
    row = next((one for one in posted.snapshot["topics"] if one["name"] == name), None)
    if row is None:
        values = {"name": name, "group": None, "posted": posted, "snapshot": posted.snapshot}
        return render(request, "console/no_topic.html", values, status=404)
    like, trouble = _like(request, name)
    if request.method != "POST":
        initial = {} if like is None else forms.filled_in(like)
        return _form(request, posted, row, ProduceForm(initial=initial), like, trouble=trouble)
    form = ProduceForm(request.POST, request.FILES)
    form.original = None if like is None else like.record.body
    if not form.is_valid():
        return _form(request, posted, row, form, like, status=400)
    drafts: list[Draft] = form.cleaned_data["drafts"]
    choice = form.cleaned_data["transaction"]
    by = actor_of(request)
    try:
        if choice not in ("", forms.SEND):
            return _begun(name, drafts[0], choice, by)
        sent = services.produce(topic=name, drafts=drafts, by=by)
    except EngineError as error:
        status = 503 if error.retriable else 400
        return _form(request, posted, row, form, like, trouble=_why(error), status=status)
    if all(one.problem for one in sent):
        trouble = _("Nothing was sent: %(why)s.") % {"why": sent[0].problem.rstrip(".")}
        return _form(request, posted, row, form, like, trouble=trouble, status=400)
    refused = [one for one in sent if one.problem]
    if refused:
        why = ngettext(
            "%(count)d message was refused. The first, message %(number)d: %(why)s.",
            "%(count)d messages were refused. The first, message %(number)d: %(why)s.",
            len(refused),
        ) % {
            "count": len(refused),
            "number": refused[0].index + 1,
            "why": refused[0].problem[:300].rstrip("."),
        }
        notices.error(request, why)
    return HttpResponseRedirect(f"{shown.topic_path(name)}produced?{_told(sent)}", status=303)


@asking_page
def produced(posted: Posted, request: HttpRequest, *, name: str) -> Page:
    """Show where messages went that were sent; the log says what is there."""
    del posted
    places, total = _places(request.GET.get("at", ""))
    rows, trouble = [], ""
    try:
        for queue, queue_offset in places:
            found = selectors.message_at(name, queue, queue_offset)
            rows.append(
                {
                    "queue": queue,
                    "offset": queue_offset,
                    "href": shown.message_path(name, queue, queue_offset),
                    "message_id": None if found is None else found.message_id,
                }
            )
    except EngineError as error:
        trouble = _("The broker cannot be asked: %(why)s.") % {"why": why(error)}
    return Page(
        template="console/messages/produced.html",
        values={
            "name": name,
            "topic_href": shown.topic_path(name),
            "rows": rows,
            "total": total,
            "trouble": trouble,
            "waiting": _number(request.GET.get("waiting", "")),
            "waiting_ids": request.GET.getlist("id")[:PLACES_SHOWN],
            "transaction": request.GET.get("transaction", ""),
            "half_offset": _number(request.GET.get("half", "")),
        },
    )


def _form(
    request: HttpRequest,
    posted: Posted,
    topic: object,
    form: ProduceForm,
    like: Seen | None,
    *,
    trouble: str = "",
    status: int = 200,
) -> HttpResponse:
    errors = [(_label(field), error) for field, texts in form.errors.items() for error in texts]
    values = {
        "topic": topic,
        "here": "produce",
        "form": form,
        "errors": errors,
        "trouble": trouble,
        "like": None if like is None else shown.message_row(like, now_ms=0),
        "levels": len(DELAY_LEVELS_MS),
        "form_bytes_max": forms.FORM_BYTES_MAX,
        "messages_max": BATCH_MESSAGES_MAX,
        "posted": posted,
        "snapshot": posted.snapshot,
    }
    return render(request, "console/messages/produce.html", values, status=status)


def _like(request: HttpRequest, name: str) -> tuple[Seen | None, str]:
    """Return the message that a form is filled in from; and why not, where one was named."""
    text = request.GET.get("like", "")
    if not text:
        return None, ""
    source = request.GET.get("of") or name
    # Who may send to a topic need not be one who may read it, or the other.
    peek = access_of(request).may(Action.PEEK, topic(source))
    if not peek.is_allowed:
        return None, _("The message to copy is hidden: %(why)s.") % {"why": in_words(peek.reason)}
    try:
        place = read(text, Meaning.PLACE)
        found = selectors.message_at(source, place.queue or 0, place.queue_offset or 0)
    except ValueError as error:
        return None, sentence_of(error)
    except EngineError as error:
        return None, _why(error)
    return found, "" if found else _("The message to copy is not in the log any more.")


def _begun(name: str, draft: Draft, choice: str, by: str) -> HttpResponse:
    """Store a half message, and decide it where that was chosen."""
    begun, message_id = services.begin(topic=name, draft=draft, by=by)
    told = {"transaction": choice, "half": str(begun.half_offset), "id": message_id}
    if choice != forms.LEAVE:
        found = pending.one(begun.half_offset)
        if found is None:
            # It is undecided, or somebody was faster: its page says which.
            told["transaction"] = forms.LEAVE
        else:
            is_commit = choice == forms.COMMIT
            outcome = Outcome.COMMITTED if is_commit else Outcome.ROLLED_BACK
            ended = decisions.decide(transaction=found, outcome=outcome, by=by)
            if ended.queue_offset is not None:
                told["at"] = f"{ended.queue}:{ended.queue_offset}"
    return HttpResponseRedirect(f"{shown.topic_path(name)}produced?{urlencode(told)}", status=303)


def _told(sent: list[Sent]) -> str:
    """Return what became of messages, short enough for an address: runs of places, and counts."""
    runs: list[list[int]] = []
    for one in sent:
        if one.queue is None or one.queue_offset is None:
            continue
        if runs and runs[-1][0] == one.queue and runs[-1][2] + 1 == one.queue_offset:
            runs[-1][2] = one.queue_offset
        else:
            runs.append([one.queue, one.queue_offset, one.queue_offset])
    texts = [f"{queue}:{first}-{last}" for queue, first, last in runs[:_RUNS_MAX]]
    waiting = [one for one in sent if not one.problem and one.queue_offset is None]
    pairs = [("at", ",".join(texts))] if texts else []
    if waiting:
        pairs.append(("waiting", str(len(waiting))))
        pairs += [("id", one.message_id or "") for one in waiting[:10]]
    return urlencode(pairs)


def _places(text: str) -> tuple[list[tuple[int, int]], int]:
    """Return the first places of the runs an address names, and how many there are in all."""
    places: list[tuple[int, int]] = []
    total = 0
    for part in text.split(",")[:_RUNS_MAX]:
        found = _PLACE.fullmatch(part)
        if found is None:
            continue
        queue, first = int(found[1]), int(found[2])
        count = int(found[3] or first) - first + 1
        if not 1 <= count <= BATCH_MESSAGES_MAX:
            continue
        total += count
        wanted = min(count, PLACES_SHOWN - len(places))
        places += [(queue, offset) for offset in range(first, first + wanted)]
    return places, total


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _label(field: str) -> str:
    return "" if field == "__all__" else field_words(field)


def _why(error: EngineError) -> str:
    said = sentence_of(error)
    if error.retriable:
        return f"{said} " + _("It may have been sent or not: look before you send it again.")
    return said
