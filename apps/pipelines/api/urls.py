"""REST addresses of the pipelines."""

from django.urls import path

from apps.pipelines.api.views import files, jobs, results, runs, streams

urlpatterns = [
    path("pipelines/jobs", jobs.PipelineJobListView.as_view()),
    path("pipelines/jobs/<str:job>", jobs.PipelineJobView.as_view()),
    path("pipelines/runs", runs.RunListView.as_view()),
    path("pipelines/runs/<str:run>:cancel", runs.RunCancelView.as_view()),
    path("pipelines/runs/<str:run>:rerun", runs.RunAgainView.as_view()),
    path("pipelines/runs/<str:run>:download", files.RunDownloadView.as_view()),
    path("pipelines/runs/<str:run>", runs.RunView.as_view()),
    path("pipelines/files/<str:file>", files.FileView.as_view()),
    path("pipelines/results", results.TableListView.as_view()),
    path("pipelines/results/<str:table>", results.ResultView.as_view()),
    path("pipelines/streams", streams.StreamListView.as_view()),
    path("pipelines/streams/<str:stream>/batches", streams.BatchListView.as_view()),
    path("pipelines/streams/<str:stream>", streams.StreamView.as_view()),
]
