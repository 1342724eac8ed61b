"""Pages of channels. Knows forms, selectors and services."""

from functools import partial

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.alerts import selectors, services
from apps.alerts.forms import ChannelForm, channel_values
from apps.alerts.models import Channel
from apps.alerts.outbound.targets import shown
from apps.console.pages.common import Page, Told
from apps.console.pages.rows import rows_action, rows_page, said, taken, tried
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.engine.clock import SystemClock

_NUMBER_MAX = 2**62
_HOME = "/alerts/channels"


@rows_page
def channels(_request: HttpRequest) -> Page:
    """Show every channel and what it was told."""
    return _channels_page(ChannelForm())


@rows_page
def channel(_request: HttpRequest, *, number: int) -> Page:
    """Show one channel, to be changed and tried, and what came of what it was told."""
    found = selectors.channel(number)
    return _channel_page(found, ChannelForm(initial=channel_values(found)))


@rows_action
def create(request: HttpRequest) -> Told | Page:
    """Make a channel."""
    form = ChannelForm(request.POST)

    def act() -> Told:
        made = services.create_channel(
            terms=form.terms(), by=actor_of(request), now_ms=SystemClock().wall_ms()
        )
        return Told(text=_("The channel is made; send a test to see it work."), back=_at(made.pk))

    return taken(form, act, again=_channels_page)


@rows_action
def change(request: HttpRequest, *, number: int) -> Told | Page:
    """Change a channel."""
    try:
        found = selectors.channel(number)
    except ProblemError as refusal:
        return Told(text=said(refusal), back=_HOME, is_good=False)
    form = ChannelForm(request.POST)

    def act() -> Told:
        services.change_channel(
            channel_id=found.pk,
            terms=form.terms(),
            version=form.cleaned_data["version"] or 0,
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )
        return Told(text=_("The channel is changed."), back=_at(number))

    return taken(form, act, again=partial(_channel_page, found))


@rows_action
def delete(request: HttpRequest, *, number: int) -> Told:
    """Delete a channel."""

    def act() -> Told:
        services.delete_channel(channel_id=min(number, _NUMBER_MAX), by=actor_of(request))
        return Told(text=_("The channel is deleted."), back=_HOME)

    return tried(act, back=_HOME)


@rows_action
def test(request: HttpRequest, *, number: int) -> Told:
    """Have a channel be told something to see whether it works."""

    def act() -> Told:
        services.try_channel(
            channel_id=min(number, _NUMBER_MAX),
            by=actor_of(request),
            now_ms=SystemClock().wall_ms(),
        )
        told = _("A test goes out within seconds; below is what comes of it.")
        return Told(text=told, back=_at(number))

    return tried(act, back=_HOME)


def _at(number: int) -> str:
    return f"/alerts/channels/{number}"


def _address(found: Channel) -> str:
    return shown(found.url) if found.url else ", ".join(found.recipients)


def _channels_page(form: ChannelForm, *, status: int = 200) -> Page:
    rows = [{"row": found, "address": _address(found)} for found in selectors.channels()]
    values = {"channels": rows, "form": form}
    return Page(template="console/alerts/channels.html", values=values, status=status)


def _channel_page(found: Channel, form: ChannelForm, *, status: int = 200) -> Page:
    return Page(
        template="console/alerts/channel.html",
        values={
            "channel": found,
            "address": _address(found),
            "form": form,
            "deliveries_max": selectors.DELIVERIES_MAX,
            "waiting": selectors.waiting(found),
            "deliveries": selectors.deliveries(found),
        },
        status=status,
    )
