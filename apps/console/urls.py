"""Addresses of the pages. A name may hold any character, also a slash that was escaped."""

from django.urls import path
from django.views.generic import RedirectView

from apps.console.pages import (
    clockwork,
    deadletters,
    delays,
    givenup,
    group,
    history,
    lists,
    locks,
    objects,
    overview,
    transactions,
)
from apps.console.pages.alerts import alerts as alert_pages
from apps.console.pages.alerts import attention
from apps.console.pages.alerts import channels as alert_channels
from apps.console.pages.alerts import rules as alert_rules
from apps.console.pages.pipelines import overview as pipelines
from apps.console.pages.pipelines import results as pipeline_results
from apps.console.pages.pipelines import runs as pipeline_runs

app_name = "console"

alert_patterns = [
    path("alerts", alert_pages.alerts, name="alerts"),
    path("alerts/history", alert_pages.history, name="alert_history"),
    path("alerts/attention", attention.attention, name="attention"),
    path("alerts/<int:number>", alert_pages.alert, name="alert"),
    path("alerts/<int:number>/acknowledge", alert_pages.acknowledge, name="acknowledge"),
    path("alerts/rules", alert_rules.rules, name="alert_rules"),
    path("alerts/rules/new", alert_rules.new_rule, name="new_alert_rule"),
    path("alerts/rules/create", alert_rules.create_rule, name="create_alert_rule"),
    path("alerts/rules/<int:number>", alert_rules.rule, name="alert_rule"),
    path("alerts/rules/<int:number>/change", alert_rules.change_rule, name="change_alert_rule"),
    path("alerts/rules/<int:number>/delete", alert_rules.delete_rule, name="delete_alert_rule"),
    path("alerts/silences", alert_rules.silences, name="silences"),
    path("alerts/silences/create", alert_rules.create_silence, name="create_silence"),
    path("alerts/silences/<int:number>/end", alert_rules.end_silence, name="end_silence"),
    path("alerts/channels", alert_channels.channels, name="alert_channels"),
    path("alerts/channels/create", alert_channels.create, name="create_alert_channel"),
    path("alerts/channels/<int:number>", alert_channels.channel, name="alert_channel"),
    path("alerts/channels/<int:number>/change", alert_channels.change, name="change_channel"),
    path("alerts/channels/<int:number>/delete", alert_channels.delete, name="delete_channel"),
    path("alerts/channels/<int:number>/test", alert_channels.test, name="test_channel"),
]

list_patterns = [
    path("topics", lists.topics, name="topics"),
    path("topics.csv", lists.topics_csv, name="topics_csv"),
    path("topics/<path:name>/history", history.topic, name="topic_history"),
    path("groups", lists.groups, name="groups"),
    path("groups.csv", lists.groups_csv, name="groups_csv"),
    path("groups/<path:name>/history", history.group, name="group_history"),
]

urlpatterns = [
    *alert_patterns,
    *list_patterns,
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
    path("topics/<path:name>/", objects.topic, name="topic"),
    path("groups/<path:name>/", group.group, name="group"),
]
