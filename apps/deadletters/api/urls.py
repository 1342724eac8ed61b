"""REST addresses of dead letters and of jobs."""

from django.urls import path

from apps.deadletters.api.views import jobs, letters, retries

urlpatterns = [
    path("groups/<str:group>/dead-letters", letters.LetterListView.as_view()),
    path("groups/<str:group>/dead-letters:resend", letters.ResendView.as_view()),
    path("groups/<str:group>/dead-letters:discard", letters.DiscardView.as_view()),
    path("groups/<str:group>/dead-letters:export", letters.ExportView.as_view()),
    path("groups/<str:group>/dead-letters/<str:letter>", letters.LetterView.as_view()),
    path("groups/<str:group>/retries", retries.RetriesView.as_view()),
    path("jobs", jobs.JobListView.as_view()),
    path("jobs/<str:job>:cancel", jobs.JobCancelView.as_view()),
    path("jobs/<str:job>", jobs.JobView.as_view()),
]
