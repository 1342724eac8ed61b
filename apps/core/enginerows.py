"""Admin pages over what the broker holds in its files. Knows neither engine nor model.

There is no table of messages to be listed: a page asks a selector, and an act calls a service for
each thing that was chosen, after a page that says how many they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from apps.core.actors import actor_of
from apps.core.admin import ReadOnlyAdmin
from apps.core.adminacts import Call, Offer, Place, Verdict, may
from apps.core.exceptions import ProblemError
from apps.core.phrases import read, told
from apps.engine.errors import EngineError

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

CHOSEN_MAX = 100
# Whoever may look at a topic may see what waits for it.
_SEE = Call("GET", "api/v1/topics/<str:topic>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A thing the broker holds: by what an act names it, what a list shows, and in one line.

    It is shown to those who may look at its topic.
    """

    key: str
    topic: str
    cells: Sequence[object]
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPage:
    """Some of the things, and the query string of the next page; empty on the last."""

    rows: Sequence[Held]
    next_query: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAct:
    """Something that may be done: what its button says, and the call it stands for."""

    description: "StrOrPromise"
    call: Call


def _is_shown(request: HttpRequest, row: Held) -> bool:
    return may(request, _SEE, Place(parts={"topic": row.topic})).is_allowed


class EngineRowsAdmin(ReadOnlyAdmin):
    """A list of rows with a second page beside it: what the broker holds right now."""

    held_title: "StrOrPromise" = ""
    held_columns: "Sequence[StrOrPromise]" = ()
    held_empty: "StrOrPromise" = ""
    held_acts: Mapping[str, HeldAct] = {}
    """What may be done, by name."""
    held_permission = ""
    """Django's own right to do so, which counts while access is off."""
    change_list_template = "admin/engine_change_list.html"

    def held(self, query: QueryDict) -> HeldPage:
        """Return a page of what the broker holds. Raises what the engine raises."""
        raise NotImplementedError

    def carry_out(self, act: str, key: str, *, by: str) -> str:
        """Do one act to one thing and return what came of it, in words."""
        raise NotImplementedError

    def topic_of(self, key: str) -> str | None:
        """Return the topic of a thing, None where nobody knows it; raise what the engine raises."""
        raise NotImplementedError

    @property
    def held_name(self) -> str:
        """Return the name of the page's address."""
        meta = self.model._meta
        return f"{meta.app_label}_{meta.model_name}_held"

    def get_urls(self) -> list[Any]:
        """Put the page before the rows' own addresses, which would take its name for a key."""
        own: list[URLPattern] = [
            path("held/", self.admin_site.admin_view(self.held_view), name=self.held_name)
        ]
        return [*own, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the rows, with the way to the page."""
        told = {"held_address": reverse(f"admin:{self.held_name}"), "held_title": self.held_title}
        return super().changelist_view(request, {**(extra_context or {}), **told})

    def held_view(self, request: HttpRequest) -> HttpResponse:
        """Show what is held, ask about an act, or carry it out."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            return self._acted(request)
        found, trouble = HeldPage(rows=()), ""
        try:
            found = self.held(request.GET)
        except (EngineError, ProblemError) as refusal:
            trouble = told(refusal)
        rows = [row for row in found.rows if _is_shown(request, row)]
        acts = {name: act.description for name, act in self._offered(request).items()}
        values = {
            "rows": rows,
            "hidden": len(found.rows) - len(rows),
            "next_query": found.next_query,
            "trouble": trouble,
            "acts": acts.items(),
            "closed_acts": [
                (act.description, read(self._verdict(request, act).reason))
                for name, act in self.held_acts.items()
                if name not in acts
            ],
        }
        return self._rendered(request, "admin/engine_rows.html", values)

    def _offered(self, request: HttpRequest) -> Mapping[str, HeldAct]:
        return {
            name: act
            for name, act in self.held_acts.items()
            if self._verdict(request, act).is_allowed
        }

    def _verdict(self, request: HttpRequest, act: HeldAct) -> Verdict:
        offer = Offer(description=act.description, call=act.call, permission=self.held_permission)
        return offer.offered_to(request)

    def _acted(self, request: HttpRequest) -> HttpResponse:
        offered = self._offered(request)
        act = request.POST.get("act", "")
        if act in self.held_acts.keys() - offered.keys() or not offered:
            asked = self.held_acts.get(act) or next(iter(self.held_acts.values()))
            raise PermissionDenied(self._verdict(request, asked).reason)
        keys = list(dict.fromkeys(request.POST.getlist("key")))[:CHOSEN_MAX]
        if act not in offered or not keys:
            return HttpResponseRedirect(reverse(f"admin:{self.held_name}"))
        if "apply" not in request.POST:
            values = {"act": act, "act_said": offered[act].description, "keys": keys}
            return self._rendered(request, "admin/engine_confirm.html", values)
        for key in keys:
            try:
                text, level = self._done(request, act, key), messages.SUCCESS
            except (EngineError, ProblemError) as refusal:
                text, level = f"{key}: {told(refusal)}", messages.ERROR
            self.message_user(request, text, level)
        return HttpResponseRedirect(reverse(f"admin:{self.held_name}"))

    def _done(self, request: HttpRequest, act: str, key: str) -> str:
        topic = self.topic_of(key)
        place = Place(names=() if topic is None else (topic,))
        verdict = may(request, self.held_acts[act].call, place)
        if not verdict.is_allowed:
            raise ProblemError("forbidden", verdict.reason)
        return self.carry_out(act, key, by=actor_of(request))

    def _rendered(
        self, request: HttpRequest, template: str, values: Mapping[str, object]
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": self.held_title,
            "opts": self.model._meta,
            "columns": self.held_columns,
            "empty": self.held_empty,
            **values,
        }
        return TemplateResponse(request, template, context)
