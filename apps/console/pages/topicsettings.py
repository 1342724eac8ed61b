"""The pages that make, change and delete a topic. Know one service; each act has an address."""

from typing import Any

from django.contrib import messages as notices
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from apps.access import asking
from apps.access.policy import Action, topic
from apps.audit.models import REASON_CHARACTERS_MAX
from apps.console import messages as shown
from apps.console.pages.common import no_engine, posted_for
from apps.console.refusals import field as field_words
from apps.console.refusals import sentence_of
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.engine.errors import EngineError, UnknownTopic
from apps.groups.retrytopics import group_of
from apps.topics import services
from apps.topics.forms import NewTopicForm, SettingsForm
from apps.topics.selectors import TopicState, topic_state, use_of


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def settings(request: HttpRequest, *, name: str) -> HttpResponse:
    """Show what is set, or change it where nobody else has meanwhile."""
    state = _state(name)
    if state is None or state.updated_at is None:
        return _none(request, name)
    before = _values(state)
    if request.method != "POST":
        return _settings(request, state, SettingsForm(initial=before))
    form = SettingsForm(request.POST, initial=before)
    if not form.is_valid():
        return _settings(request, state, form, status=400)
    try:
        services.create_or_change_topic(name=name, **form.wish(), by=actor_of(request))
    except ProblemError as refusal:
        return _settings(request, state, form, trouble=sentence_of(refusal), status=409)
    except EngineError as error:
        return _settings(request, state, form, trouble=sentence_of(error), status=400)
    notices.success(request, _("The settings of %(name)s are changed.") % {"name": name})
    return HttpResponseRedirect(f"{shown.topic_path(name)}settings", status=303)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def new(request: HttpRequest) -> HttpResponse:
    """Show the form for a topic, or make one that is not there yet."""
    form = NewTopicForm(request.POST or None)
    trouble, status = "", 200
    if request.method == "POST":
        status = 400
        if form.is_valid():
            wish = form.wish()
            asking.require(request, Action.CREATE, topic(str(wish["name"])))
            try:
                changed = services.create_or_change_topic(**wish, by=actor_of(request))
            except ProblemError as refusal:
                trouble, status = sentence_of(refusal), 409
            except EngineError as error:
                trouble = sentence_of(error)
            else:
                notices.success(request, _("The topic %(name)s is made.") % {"name": changed.topic})
                path = f"{shown.topic_path(changed.topic.name)}settings"
                return HttpResponseRedirect(path, status=303)
    values = {"form": form, "errors": _errors(form), "trouble": trouble}
    return _rendered(request, "console/messages/topic_new.html", values, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def delete(request: HttpRequest, *, name: str) -> HttpResponse:
    """Show what a deletion would take away, or do it where the name was typed."""
    state = _state(name)
    if state is None or state.updated_at is None:
        return _none(request, name)
    trouble, status = "", 200
    if request.method == "POST":
        if request.POST.get("typed", "").strip() == name:
            reason = request.POST.get("reason", "").strip()
            if not reason:
                trouble, status = _("Nothing was done: say why, for those who ask later."), 400
            else:
                try:
                    services.delete_topic(
                        name=name,
                        by=actor_of(request),
                        reason=reason,
                        even_in_use=request.POST.get("even_in_use") == "1",
                    )
                except UnknownTopic:
                    return _none(request, name)
                except ProblemError as refusal:
                    trouble, status = sentence_of(refusal), refusal.kind.status
                except EngineError as error:
                    trouble, status = sentence_of(error), 503
                else:
                    notices.success(request, _("The topic %(name)s is deleted.") % {"name": name})
                    return HttpResponseRedirect("/", status=303)
        else:
            trouble, status = _("Nothing was done: type the name of the topic to delete it."), 400
    values = {
        "topic": shown.head_of(name, state.type),
        "here": "settings",
        "held": _held(name),
        "readers": _readers(request, name),
        "trouble": trouble,
        "entered": request.POST,
        "reason_characters_max": REASON_CHARACTERS_MAX,
    }
    return _rendered(request, "console/messages/topic_delete.html", values, status=status)


def _state(name: str) -> TopicState | None:
    try:
        return topic_state(name)
    except UnknownTopic:
        return None


def _values(state: TopicState) -> dict[str, Any]:
    """Return what a form shows; `queue_count` is what there will be."""
    return {
        "type": state.type,
        "perm": state.perm,
        "queue_count": state.target_queue_count,
        "retention_ms": state.retention_ms,
        "expires_ms": state.expires_ms,
        "lite_ttl_minutes": state.lite_ttl_minutes,
        "version": state.updated_at,
    }


def _settings(
    request: HttpRequest,
    state: TopicState,
    form: SettingsForm,
    *,
    trouble: str = "",
    status: int = 200,
) -> HttpResponse:
    values = {
        "topic": shown.head_of(state.name, state.type),
        "here": "settings",
        "state": state,
        "form": form,
        "errors": _errors(form),
        "trouble": trouble,
        # What was entered goes with the state it was entered about; a look again starts anew.
        "version": form.data.get("version") or (state.updated_at and state.updated_at.isoformat()),
    }
    return _rendered(request, "console/messages/topic_settings.html", values, status=status)


def _held(name: str) -> int | None:
    """Return how many messages go with a topic, its lite topics' too; None where nobody can say."""
    try:
        return use_of(name).held
    except EngineError:
        return None


def _readers(request: HttpRequest, name: str) -> list[str]:
    posted = posted_for(request)
    groups = [] if posted is None else posted.snapshot["groups"]
    return [row["name"] for row in groups if any(one["topic"] == name for one in row["queues"])]


def _none(request: HttpRequest, name: str) -> HttpResponse:
    values = {"name": name, "group": group_of(name)}
    return _rendered(request, "console/no_topic.html", values, status=404)


def _rendered(
    request: HttpRequest, template: str, values: dict[str, Any], *, status: int
) -> HttpResponse:
    posted = posted_for(request)
    if posted is None:
        return no_engine(request)
    whole = {**values, "posted": posted, "snapshot": posted.snapshot}
    return render(request, template, whole, status=status)


def _errors(form: SettingsForm | NewTopicForm) -> list[tuple[str, str]]:
    return [
        (field_words(field), str(error)) for field, texts in form.errors.items() for error in texts
    ]
