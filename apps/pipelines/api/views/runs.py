"""REST views of runs: looking, asking, calling off."""

from collections.abc import Iterable

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access.asking import sight_of
from apps.core.actors import actor_of
from apps.core.exceptions import ProblemError
from apps.core.pagination import listing, number_after, page_of, page_request
from apps.core.schema import PROBLEM_RESPONSES, page_parameters
from apps.pipelines.api.serializers.runs import (
    PipelineRunDocument,
    PipelineRunList,
    RunRequest,
    WholePipelineRunDocument,
    rendered_file,
    rendered_input,
    rendered_run,
)
from apps.pipelines.asked import number_of
from apps.pipelines.catalogue import JOBS
from apps.pipelines.models import PipelineRun, RunState, Trigger
from apps.pipelines.permitted import require_topics, run_to_change
from apps.pipelines.selectors import runs
from apps.pipelines.services import asking

_LINES_MAX = 1_000


class RunListView(APIView):
    """Runs of all jobs."""

    @extend_schema(
        operation_id="list_pipeline_runs",
        parameters=[
            OpenApiParameter("job", str, enum=list(JOBS)),
            OpenApiParameter("state", str, enum=RunState.values),
            *page_parameters("runs"),
        ],
        responses={200: PipelineRunList, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, request: Request) -> Response:
        """List runs, the newest first.

        Without the cluster's `get` those of named topics, all of which the caller may see.
        """
        query = request.query_params
        wanted = page_request(query)

        found = runs.runs(
            sight=sight_of(request._request),
            job=_one_of(query.get("job"), "job", JOBS),
            state=_one_of(query.get("state"), "state", RunState.values),
            before=number_after(wanted),
            lines_max=wanted.items_max + 1,
        )

        rows, next_cursor = page_of(found, wanted, key=lambda row: str(row.pk))
        return Response(listing([rendered_run(row) for row in rows], next_cursor))

    @extend_schema(
        operation_id="ask_for_pipeline_run",
        request=RunRequest,
        responses={200: PipelineRunDocument, 202: PipelineRunDocument, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def post(self, request: Request) -> Response:
        """Ask for a run of a job over a window; `Location` tells where it is.

        Asking again is safe: what waits, runs or is done is given back. 202 for a run that is yet
        to end, 200 for one that is done; `replace` asks for that one anew. Needs `run` of each
        topic; without topics that of the cluster.
        """
        wanted = RunRequest(data=request.data)
        wanted.is_valid(raise_exception=True)
        wish = wanted.wish()
        require_topics(request._request, wish.get("topics") or [])

        run = asking.ask(**wish, trigger=Trigger.PERSON, by=actor_of(request))

        return _asked(run)


class RunView(APIView):
    """One run."""

    @extend_schema(
        operation_id="get_pipeline_run",
        responses={200: WholePipelineRunDocument, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def get(self, request: Request, run: str) -> Response:
        """Return how far a run is, what went into it, and the files it made."""
        found = runs.run(number_of(run, "run"), sight_of(request._request))

        return Response(
            {
                **rendered_run(found),
                "inputs": [rendered_input(row) for row in runs.inputs(found, lines_max=_LINES_MAX)],
                "files": [rendered_file(row) for row in runs.files(found, lines_max=_LINES_MAX)],
                "lineage": found.lineage,
            }
        )


class RunCancelView(APIView):
    """The end of a run before its time."""

    @extend_schema(
        operation_id="cancel_pipeline_run",
        request=None,
        responses={200: PipelineRunDocument, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def post(self, request: Request, run: str) -> Response:
        """Call a run off; nothing of it is published. 409 for one that has ended otherwise."""
        found = run_to_change(request._request, number_of(run, "run"))

        return Response(rendered_run(asking.cancel(found.pk, by=actor_of(request))))


class RunAgainView(APIView):
    """The same run once more."""

    @extend_schema(
        operation_id="rerun_pipeline_run",
        request=None,
        responses={202: PipelineRunDocument, **PROBLEM_RESPONSES},
        tags=["pipelines"],
    )
    def post(self, request: Request, run: str) -> Response:
        """Ask for what a run did anew; when that is done, its results take the place of the old."""
        found = run_to_change(request._request, number_of(run, "run"))

        return _asked(asking.again(found, by=actor_of(request)))


def _asked(run: PipelineRun) -> Response:
    return Response(
        rendered_run(run),
        status=status.HTTP_202_ACCEPTED if run.is_active else status.HTTP_200_OK,
        headers={"Location": f"/api/v1/pipelines/runs/{run.pk}"},
    )


def _one_of(value: str | None, kind: str, known: Iterable[str]) -> str | None:
    names = list(known)
    if value is not None and value not in names:
        raise ProblemError("invalid_argument", f"{kind} must be one of {', '.join(names)}")
    return value
