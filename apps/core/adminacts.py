"""Acts on rows of the admin: what each needs, its page of confirmation, and what came of it.

Knows no model, and decides nothing: `decided_by` says who does, about an act by its address in the
API, and about rows by their model.

    @confirmed(
        description=gettext_lazy("Take from its owner (asks for a reason)"),
        ...
        call=Call("POST", "api/v1/locks/<str:lock>:release"),
        parts=lambda lock: {"lock": f"{lock.group}~{lock.topic}~{lock.queue}"},
    )
    def release(self, request, lock, chosen): ...      releases one, and returns what came of it
"""

# Django names the arguments of these methods, whether we need them or not.

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.translation import ngettext

from apps.core.admincells import in_words
from apps.core.exceptions import ProblemError
from apps.core.phrases import read, told
from apps.engine.errors import EngineError

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

    # Generic for type checkers only: Django's own class takes no parameter.
    Base = admin.ModelAdmin[Model]
else:
    Base = admin.ModelAdmin

# A confirmation names so many of what it is about, and counts the rest.
NAMED_MAX = 20
# So many are acted on in one request, unless an act says otherwise.
THINGS_MAX = 100


class Verdict(Protocol):
    """Whether somebody may, and why not."""

    @property
    def is_allowed(self) -> bool:
        """Say whether they may."""

    @property
    def reason(self) -> str:
        """Say why not."""


@dataclass(frozen=True, slots=True)
class Call:
    """An address of the API, or of a page, as Django's routes are written, with its method.

    Whoever may not make this call may not do the same in the admin.
    """

    method: str
    route: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call is to be made: by the parts of its address, and the names it leads to.

    `names` are of the topics or groups that only a row tells, where the address has its number; of
    no name at all it is the whole installation.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()


RowAct = Literal["see", "add", "change", "delete"]
DecideCall = Callable[[HttpRequest, Call, Place | None, str], Verdict]
DecideRows = Callable[[HttpRequest, type[Model], RowAct, Model | None], Verdict | None]
_decides: list[tuple[DecideCall, DecideRows]] = []


def decided_by(*, calls: DecideCall, rows: DecideRows) -> None:
    """Have somebody decide about calls and rows.

    The place of a call is None for "of anything at all", and so is the row. The text is Django's
    permission for the same, for a decider that goes by these; who decides about rows says None
    where Django does.
    """
    _decides[:] = [(calls, rows)]


def may(
    request: HttpRequest, call: Call, place: Place | None = None, *, permission: str = ""
) -> Verdict:
    """Return whether whoever asks may make a call somewhere, or could at some place.

    Raises IndexError where nobody decides, which lets nobody through.
    """
    calls, _rows = _decides[0]
    return calls(request, call, place, permission)


def may_row(
    request: HttpRequest, model: type[Model], act: RowAct, row: Model | None
) -> Verdict | None:
    """Return whether whoever asks may do something with a row, or with some row, of a model.

    None where Django's own permissions say so. Raises what `may` raises.
    """
    _calls, rows = _decides[0]
    return rows(request, model, act, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What an act was asked for: the rows that were chosen, and the form as it was filled in."""

    rows: QuerySet[Any]
    form: forms.Form | None
    is_all: bool
    """Whether the whole list was chosen, as its filters match it."""


def _each(rows: QuerySet[Any], things_max: int) -> Sequence[Any]:
    return list(rows.order_by("pk")[:things_max])


def _no_parts(_thing: Any) -> Mapping[str, str]:
    return {}


def _no_names(_thing: Any) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Something that a list offers: the call it stands for, and what it is called.

    `permission` is Django's own, which counts while access is off.
    """

    description: "StrOrPromise"
    call: Call
    permission: str

    def offered_to(self, request: HttpRequest) -> Verdict:
        """Return whether there may be anything that whoever looks may do this to."""
        return may(request, self.call, permission=self.permission)

    def require_offered(self, request: HttpRequest) -> None:
        """Raise PermissionDenied where it is not offered."""
        verdict = self.offered_to(request)
        if not verdict.is_allowed:
            raise PermissionDenied(verdict.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Offer):
    """An act on chosen rows, as it is declared.

    `things_of` makes of rows what it is done to, one by one: the rows themselves, or, say, their
    groups. `parts` gives of each the parts of the address in `call`, and `names` the topics or
    groups that such an address leads to. `plan` says in a line or more what would be done to a
    thing.
    """

    title: "StrOrPromise"
    said: "StrOrPromise"
    button: "StrOrPromise"
    parts: Callable[[Any], Mapping[str, str]] = _no_parts
    names: Callable[[Any], Sequence[str]] = _no_names
    form: type[forms.Form] | None = None
    rows_of: Callable[[QuerySet[Any]], QuerySet[Any]] = QuerySet.all
    things_of: Callable[[QuerySet[Any], int], Sequence[Any]] = _each
    things_max: int = THINGS_MAX
    name_of: Callable[[Any], str] = str
    plan: Callable[[Any, QuerySet[Any]], Iterable[str]] | None = None

    def allowed_on(self, request: HttpRequest, thing: Any) -> Verdict:
        """Return whether whoever looks may do this to one thing."""
        return may(request, self.call, self.place_of(thing))

    def place_of(self, thing: Any) -> Place:
        """Return where its call would be made for one thing."""
        return Place(parts=self.parts(thing), names=self.names(thing))

    def asked(
        self, model_admin: Base, request: HttpRequest, chosen: Chosen, action: str
    ) -> HttpResponse:
        """Return the page on which the act is confirmed: how many, which, how, and why not."""
        things = self.things_of(chosen.rows, self.things_max)
        lines, closed = [], []
        for thing in things:
            verdict = self.allowed_on(request, thing)
            if not verdict.is_allowed:
                closed.append((self.name_of(thing), read(verdict.reason)))
            elif self.plan is None:
                lines.append(self.name_of(thing))
            else:
                lines.extend(self.plan(thing, chosen.rows))
        count = chosen.rows.count()
        keys = request.POST.getlist("_selected_action")
        values = {
            **model_admin.admin_site.each_context(request),
            "title": self.title,
            "said": self.said,
            "button": self.button,
            "count": count,
            "lines": lines[:NAMED_MAX],
            "unnamed": max(0, len(lines) - NAMED_MAX),
            "closed": closed[:NAMED_MAX],
            "uncounted": max(0, len(closed) - NAMED_MAX),
            "things_max": self.things_max if len(things) >= self.things_max else None,
            "form": chosen.form,
            "action": action,
            "chosen": keys[:1] if chosen.is_all else keys,
            "is_all": chosen.is_all,
            "is_closed": not lines,
            "opts": model_admin.model._meta,
        }
        return TemplateResponse(request, "admin/confirm.html", values)


Do = Callable[[Any, HttpRequest, Any, Chosen], str]
Action = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponseBase | None]


def confirmed(**declared: Any) -> Callable[[Do], Action]:
    """Make an action of a method that does something to one thing and returns what came of it.

    The keywords are those of `Act`. What is refused of one thing is told, and leaves the others.
    """
    act = Act(**declared)

    def decorated(do: Do) -> Action:
        @wraps(do)
        def action(
            self: Base, request: HttpRequest, queryset: QuerySet[Any]
        ) -> HttpResponseBase | None:
            act.require_offered(request)
            is_confirmed = "apply" in request.POST
            form = act.form(request.POST if is_confirmed else None) if act.form else None
            chosen = Chosen(
                rows=act.rows_of(queryset),
                form=form,
                is_all=request.POST.get("select_across") == "1",
            )
            if not is_confirmed or (form is not None and not form.is_valid()):
                return act.asked(self, request, chosen, do.__name__)
            things = act.things_of(chosen.rows, act.things_max)
            _tell(self, request, [_done(act, do, self, request, one, chosen) for one in things])
            return None

        action.short_description = act.description  # type: ignore[attr-defined]
        action.act = act  # type: ignore[attr-defined]
        return action

    return decorated


def _tell(model_admin: Base, request: HttpRequest, outcomes: Sequence[tuple[str, int]]) -> None:
    """Tell what came of an act: of the first things each, of the rest how many they are."""
    for level in (messages.ERROR, messages.SUCCESS):
        texts = [text for text, its in outcomes if its == level]
        for text in texts[:NAMED_MAX]:
            model_admin.message_user(request, text, level)
        if (more := len(texts) - NAMED_MAX) > 0:
            text = ngettext("and %(n)d more", "and %(n)d more", more) % {"n": more}
            model_admin.message_user(request, text, level)


def _done(
    act: Act, do: Do, model_admin: Base, request: HttpRequest, thing: Any, chosen: Chosen
) -> tuple[str, int]:
    """Do an act to one thing, and return what is told of it and how."""
    verdict = act.allowed_on(request, thing)
    if not verdict.is_allowed:
        return f"{act.name_of(thing)}: {read(verdict.reason)}", messages.ERROR
    try:
        return do(model_admin, request, thing, chosen), messages.SUCCESS
    except (EngineError, ProblemError) as refusal:
        return f"{act.name_of(thing)}: {told(refusal)}", messages.ERROR


def offered(**declared: Any) -> Callable[[Action], Action]:
    """Make an action of a method that only leads on or reads. The keywords are those of `Offer`."""
    offer = Offer(**declared)

    def decorated(do: Action) -> Action:
        @wraps(do)
        def action(
            self: Base, request: HttpRequest, queryset: QuerySet[Any]
        ) -> HttpResponseBase | None:
            offer.require_offered(request)
            return do(self, request, queryset)

        action.short_description = offer.description  # type: ignore[attr-defined]
        action.act = offer  # type: ignore[attr-defined]
        return action

    return decorated


def acts_of(model_admin: Any) -> dict[str, Offer]:
    """Return the declared acts among the actions of an admin page, by name."""
    found = {}
    for name in model_admin.actions:
        act = getattr(getattr(type(model_admin), str(name), None), "act", None)
        if isinstance(act, Offer):
            found[name] = act
    return found


# A row's history is of those who changed it, as the audit is.
_SEE_HISTORY = Call("GET", "api/v1/audit")


class ActingAdmin(Base):
    """A page whose acts are offered to those who may do them; others read why they are not.

    Who may see and change its rows is decided as acts are; all pages of ours are made of this.
    """

    change_list_template = "admin/acting_change_list.html"
    shows_history = True

    def get_list_display(self, request: HttpRequest) -> Any:  # Django's mix of names and functions.
        """Return the columns, in words where their fields are raw."""
        return in_words(self.model, super().get_list_display(request))

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Say whether the first page has this one."""
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Say whether whoever asks may see the rows."""
        verdict = may_row(request, self.model, "see", obj)
        return super().has_view_permission(request, obj) if verdict is None else verdict.is_allowed

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Say whether whoever asks may add a row of some name."""
        verdict = may_row(request, self.model, "add", None)
        return super().has_add_permission(request) if verdict is None else verdict.is_allowed

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Say whether whoever asks may change a row, or some row."""
        verdict = may_row(request, self.model, "change", obj)
        if verdict is None:
            return super().has_change_permission(request, obj)
        return verdict.is_allowed

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Say whether whoever asks may delete a row, or some row."""
        verdict = may_row(request, self.model, "delete", obj)
        if verdict is None:
            return super().has_delete_permission(request, obj)
        return verdict.is_allowed

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Show the page of a row, with the way to its history for who may go it."""
        context["shows_history"] = self.shows_history and may(request, _SEE_HISTORY).is_allowed
        return super().render_change_form(request, context, *args, **kwargs)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show who changed a row, to those who may read the audit."""
        verdict = may(request, _SEE_HISTORY)
        if not verdict.is_allowed:
            raise PermissionDenied(verdict.reason)
        return super().history_view(request, object_id, extra_context)

    def get_actions(self, request: HttpRequest) -> Any:  # Django's mapping of names to triples.
        """Return the actions, without what nobody would let whoever looks do."""
        closed = {name for name, _act, _reason in self._closed(request)}
        found = super().get_actions(request)
        return {name: action for name, action in found.items() if name not in closed}

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Show the list, and what is not offered of its actions; refuse who asks for it anyway."""
        asked = set(request.POST.getlist("action"))
        for name, act in acts_of(self).items():
            if name in asked:
                act.require_offered(request)
        closed = [(act.description, reason) for _name, act, reason in self._closed(request)]
        return super().changelist_view(request, {**(extra_context or {}), "closed_acts": closed})

    def _closed(self, request: HttpRequest) -> list[tuple[str, Offer, str]]:
        verdicts = [(name, act, act.offered_to(request)) for name, act in acts_of(self).items()]
        return [
            (name, act, read(verdict.reason))
            for name, act, verdict in verdicts
            if not verdict.is_allowed
        ]
