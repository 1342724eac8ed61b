"""REST view of what is to come again to a group."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.pagination import listing, rfc3339_or_none
from apps.core.schema import PROBLEM_RESPONSES
from apps.deadletters import selectors


class RetryCountDocument(serializers.Serializer[Any]):
    """Messages that have failed so often and are to come again."""

    failures = serializers.IntegerField(
        help_text="1 for what failed once; 0 for what a person sent again to the group."
    )
    in_topic = serializers.IntegerField(help_text="In the group's retry topic, not yet done.")
    delayed = serializers.IntegerField(help_text="On their way there, through a delay.")
    in_place = serializers.IntegerField(
        help_text="Where they failed: given back, not acknowledged in time, handed out once more."
    )


class WaitingLettersDocument(serializers.Serializer[Any]):
    """What failed for the last time and waits for somebody."""

    waiting = serializers.IntegerField()
    oldest_dead_at = serializers.DateTimeField(allow_null=True)
    died_today = serializers.IntegerField(
        help_text="In the last 24 hours, whatever became of them."
    )


class RetryList(serializers.Serializer[Any]):
    """Counts by number of failures, and the group's dead letters."""

    items = RetryCountDocument(many=True)
    failures_max = serializers.IntegerField(
        allow_null=True, help_text="A message that fails once more dies; null: none does."
    )
    is_complete = serializers.BooleanField(
        help_text="False where there was more than is looked at; each count is then a least one."
    )
    dead_letters = WaitingLettersDocument()
    next_cursor = serializers.CharField(allow_null=True)
    sampled_at = serializers.DateTimeField()


class RetriesView(APIView):
    """Retries of one group."""

    @extend_schema(
        operation_id="get_group_retries",
        responses={200: RetryList, **PROBLEM_RESPONSES},
        tags=["groups"],
    )
    def get(self, _request: Request, group: str) -> Response:
        """Count by failures what is to come again; an unknown group has nothing.

        Up to 10,000 messages of the retry topic, 1,000 of each delay level and 16,384 with a delay
        of their own are looked at.
        """
        found = selectors.retries(group)
        letters = next(iter(selectors.waiting_letters(group)), None)

        return Response(
            {
                **listing(
                    [
                        {
                            "failures": one.failures,
                            "in_topic": one.in_topic,
                            "delayed": one.delayed,
                            "in_place": one.in_place,
                        }
                        for one in found.counts
                    ],
                    None,
                ),
                "failures_max": found.failures_max,
                "is_complete": found.is_complete,
                "dead_letters": {
                    "waiting": 0 if letters is None else letters.waiting,
                    "oldest_dead_at": rfc3339_or_none(
                        None if letters is None else letters.oldest_at
                    ),
                    "died_today": 0 if letters is None else letters.died_today,
                },
            }
        )
