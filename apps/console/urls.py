"""Addresses of the pages. A name may hold any character, also a slash that was escaped."""

from django.urls import path
from django.views.generic import RedirectView

from apps.console.pages import (
    clockwork,
    deadletters,
    delays,
    givenup,
    group,
    locks,
    messages,
    objects,
    overview,
    produce,
    store,
    topicparts,
    topicsettings,
    trace,
    transactions,
    viewer,
)
from apps.console.pages.pipelines import overview as pipelines
from apps.console.pages.pipelines import results as pipeline_results
from apps.console.pages.pipelines import runs as pipeline_runs

app_name = "console"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("locks", locks.locks, name="locks"),
    path("delays", delays.delays, name="delays"),
    path("delays/cancel", delays.cancel, name="delays_cancel"),
    path("delays/deliver-now", delays.deliver_now, name="delays_deliver_now"),
    path("transactions", transactions.transactions, name="transactions"),
    path("transactions/given-up", givenup.given_up, name="given_up"),
    path("transactions/given-up/<int:offset>", givenup.given_up_message, name="given_up_message"),
    path("transactions/given-up/<int:offset>/send", givenup.send, name="send_given_up"),
    path("transactions/check", transactions.check, name="check"),
    path("transactions/<int:half_offset>", transactions.transaction, name="transaction"),
    path("transactions/<int:half_offset>/decide", transactions.decide, name="decide"),
    path("dead-letters", deadletters.dead_letters, name="dead_letters"),
    path("dead-letters/<str:name>/", deadletters.group_letters, name="group_letters"),
    path("dead-letters/<str:name>/resend", deadletters.plan, name="resend"),
    path("dead-letters/<str:name>/send", deadletters.resend, name="send"),
    path("dead-letters/<str:name>/discard", deadletters.discard, name="discard"),
    path("dead-letters/<str:name>/<int:number>", deadletters.letter, name="letter"),
    path("jobs/<int:number>", deadletters.job, name="job"),
    path("jobs/<int:number>/cancel", deadletters.cancel, name="cancel_job"),
    path("clockwork", clockwork.clockwork, name="clockwork"),
    path("pipelines", RedirectView.as_view(url="/pipelines/")),
    path("pipelines/", pipelines.pipelines, name="pipelines"),
    path("pipelines/runs/", pipeline_runs.run_list, name="pipeline_runs"),
    path("pipelines/runs/ask", pipeline_runs.ask, name="ask_for_run"),
    path("pipelines/runs/<int:number>/", pipeline_runs.run, name="pipeline_run"),
    path("pipelines/runs/<int:number>/cancel", pipeline_runs.cancel, name="cancel_run"),
    path("pipelines/runs/<int:number>/rerun", pipeline_runs.rerun, name="rerun"),
    path("pipelines/results/<str:job>/", pipeline_results.findings, name="pipeline_results"),
    path("store", store.store, name="store"),
    path("messages", messages.search, name="messages"),
    path("messages/export", messages.export, name="export_messages"),
    # An id is its producer's, and may hold a slash.
    path("messages/<path:message_id>/trace", trace.trace, name="trace"),
    path("messages/<path:message_id>", messages.leading_there, name="message_by_id"),
    path(
        "topics/<str:name>/queues/<int:queue>/messages/<int:offset>",
        viewer.message,
        name="message",
    ),
    path(
        "topics/<str:name>/queues/<int:queue>/messages/<int:offset>/raw",
        viewer.raw,
        name="raw_message",
    ),
    path("topics/<str:name>/messages", topicparts.newest, name="topic_messages"),
    path("topics/new", topicsettings.new, name="new_topic"),
    path("topics/<str:name>/consumers", topicparts.consumers, name="topic_consumers"),
    path("topics/<str:name>/settings", topicsettings.settings, name="topic_settings"),
    path("topics/<str:name>/delete", topicsettings.delete, name="delete_topic"),
    path("topics/<str:name>/produce", produce.produce, name="produce"),
    path("topics/<str:name>/produced", produce.produced, name="produced"),
    path("topics/<path:name>/", objects.topic, name="topic"),
    path("groups/<path:name>/", group.group, name="group"),
]
