"""The decision itself: grants in, yes or no out. Pure Python; knows no Django and no database."""

from apps.access.policy.actions import ACTIONS_OF, Action, Kind
from apps.access.policy.book import Book, Caller, Token, digest_of
from apps.access.policy.deciding import Decision, Principal, decide
from apps.access.policy.grants import Effect, Grant, Match, checked
from apps.access.policy.resources import CLUSTER, Resource, group, topic, topic_or_cluster
from apps.access.policy.roles import Role, grants_of
from apps.access.policy.sight import Sight

__all__ = [
    "ACTIONS_OF",
    "CLUSTER",
    "Action",
    "Book",
    "Caller",
    "Decision",
    "Effect",
    "Grant",
    "Kind",
    "Match",
    "Principal",
    "Resource",
    "Role",
    "Sight",
    "Token",
    "checked",
    "decide",
    "digest_of",
    "grants_of",
    "group",
    "topic",
    "topic_or_cluster",
]
