"""Groups and their members, as they are answered."""

from typing import Any

from rest_framework import serializers

from apps.core.moments import moment
from apps.core.pagination import rfc3339, sampled_at
from apps.engine.grouptypes import MemberState, Subscription
from apps.engine.types import FilterType, MessageModel, Strategy
from apps.groups.api.serializers.settings import SettingsDocument, rendered_settings
from apps.groups.catalog import json_of
from apps.groups.selectors import GroupState, MemberPicture

_NO_HEARTBEAT = "Null for a client that keeps no heartbeat and only receives."


class SubscriptionDocument(serializers.Serializer[Any]):
    """What a member wants of a topic."""

    topic = serializers.CharField()
    filter = serializers.CharField()
    filter_type = serializers.ChoiceField([kind.value for kind in FilterType])
    is_conflicting = serializers.BooleanField(
        help_text="Another member of the group wants something else of the topic."
    )


class BlockedHeadDocument(serializers.Serializer[Any]):
    """What a member says of a queue it cannot get on with."""

    topic = serializers.CharField()
    queue = serializers.IntegerField()
    offset = serializers.CharField()
    attempts = serializers.IntegerField()
    reason = serializers.CharField(
        allow_null=True, help_text="Null for a caller who may not peek into the group."
    )


class MemberDocument(serializers.Serializer[Any]):
    """A client of the group."""

    client_id = serializers.CharField()
    topics = serializers.ListField(child=serializers.CharField())
    first_seen_at = serializers.DateTimeField(help_text="Since the broker started.")
    last_seen_at = serializers.DateTimeField()
    is_waiting = serializers.BooleanField(help_text="A request of it waits in the broker now.")
    model = serializers.ChoiceField(
        [model.value for model in MessageModel], allow_null=True, help_text=_NO_HEARTBEAT
    )
    ordered = serializers.BooleanField(allow_null=True)
    strategy = serializers.ChoiceField(
        [strategy.value for strategy in Strategy], allow_null=True, help_text="What it wishes."
    )
    site = serializers.CharField(allow_null=True)
    generation = serializers.IntegerField(
        allow_null=True, help_text="Of the assignment it was last told."
    )
    subscriptions = SubscriptionDocument(many=True)
    assignment = serializers.DictField(
        allow_null=True,
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="Its queues by topic.",
    )
    blocked = BlockedHeadDocument(many=True)


class WantedDocument(serializers.Serializer[Any]):
    """What one member wants of a topic."""

    client_id = serializers.CharField()
    filter = serializers.CharField()
    filter_type = serializers.ChoiceField([kind.value for kind in FilterType])


class ConflictDocument(serializers.Serializer[Any]):
    """A topic of which members want different things: messages are then missed."""

    topic = serializers.CharField()
    wanted = WantedDocument(many=True)


class GroupDocument(SettingsDocument):
    """A group in an answer; null is what nobody knows."""

    group = serializers.CharField()
    is_decided = serializers.BooleanField(
        help_text="False where nobody decided anything, and the settings are the defaults."
    )
    topics = serializers.ListField(child=serializers.CharField())
    queue_count = serializers.IntegerField(help_text="Queues the group has progress in.")
    lag = serializers.CharField(
        allow_null=True,
        help_text="Messages not yet committed, over all queues and lite topics; null while its "
        "lite topics are not counted yet.",
    )
    retry_lag = serializers.CharField(help_text="Of these, in the group's retry topic.")
    in_flight = serializers.IntegerField(
        allow_null=True, help_text="Handed out and not settled; null as `lag` is."
    )
    members = MemberDocument(many=True)
    idle_members = serializers.ListField(
        child=serializers.CharField(), help_text="Members that share queues and got none."
    )
    conflicts = ConflictDocument(many=True)
    generation = serializers.IntegerField(
        allow_null=True, help_text="Of the assignment in force; null without one."
    )
    assignment = serializers.DictField(
        allow_null=True, help_text="Queue numbers by topic by client id; null without one."
    )
    sampled_at = serializers.DateTimeField()


class GroupList(serializers.Serializer[Any]):
    """A page of groups."""

    items = GroupDocument(many=True)
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


def rendered_group(state: GroupState, *, peeks: bool) -> dict[str, object]:
    """Build the JSON shape of a group."""
    found = state.assignment
    return {
        "group": state.spec.name,
        **rendered_settings(state.spec),
        "is_decided": state.is_decided,
        "topics": list(state.topics),
        "queue_count": state.queue_count,
        "lag": None if state.lag is None else str(state.lag),
        "retry_lag": str(state.retry_lag),
        "in_flight": state.in_flight,
        "members": [rendered_member(member, peeks=peeks) for member in state.members],
        "idle_members": list(state.idle_members),
        "conflicts": [
            {
                "topic": conflict.topic,
                "wanted": [
                    {"client_id": client_id, **_filter(wanted)}
                    for client_id, wanted in conflict.wanted
                ],
            }
            for conflict in state.conflicts
        ],
        "generation": None if found is None else found.generation,
        "assignment": None if found is None else json_of(found.assignment),
        "sampled_at": sampled_at(),
    }


def rendered_member(member: MemberPicture, *, peeks: bool) -> dict[str, object]:
    """Build the JSON shape of a member."""
    state = member.state
    return {
        "client_id": member.client_id,
        "topics": list(member.topics),
        "first_seen_at": rfc3339(moment(member.first_seen_ms)),
        "last_seen_at": rfc3339(moment(member.last_seen_ms)),
        "is_waiting": member.is_waiting,
        "model": None if state is None else state.model,
        "ordered": None if state is None else state.ordered,
        "strategy": None if state is None else state.strategy,
        "site": None if state is None else state.site,
        "generation": None if state is None else state.generation,
        "subscriptions": [] if state is None else _subscriptions(state),
        "assignment": None
        if state is None
        else {topic: list(queues) for topic, queues in state.assignment.items()},
        "blocked": [] if state is None else _blocked(state, peeks=peeks),
    }


def _subscriptions(state: MemberState) -> list[dict[str, object]]:
    return [
        {
            "topic": wanted.topic,
            **_filter(wanted),
            "is_conflicting": wanted.topic in state.conflicts,
        }
        for wanted in state.subscriptions
    ]


def _blocked(state: MemberState, *, peeks: bool) -> list[dict[str, object]]:
    return [
        {
            "topic": head.topic,
            "queue": head.queue,
            "offset": str(head.queue_offset),
            "attempts": head.attempts,
            "reason": head.reason if peeks else None,
        }
        for head in state.blocked
    ]


def _filter(wanted: Subscription) -> dict[str, object]:
    return {"filter": wanted.filter, "filter_type": wanted.filter_type}
