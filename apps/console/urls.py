"""Addresses of the pages. A name may hold any character, also a slash that was escaped."""

from django.urls import path
from django.views.generic import RedirectView

from apps.console.pages import (
    access,
    audit,
    clockwork,
    deadletters,
    delays,
    givenup,
    group,
    locks,
    objects,
    overview,
    preferences,
    signin,
    transactions,
)
from apps.console.pages.pipelines import overview as pipelines
from apps.console.pages.pipelines import results as pipeline_results
from apps.console.pages.pipelines import runs as pipeline_runs

app_name = "console"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("preferences", preferences.prefer, name="preferences"),
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
    path("sign-in", signin.sign_in, name="sign_in"),
    path("sign-out", signin.sign_out, name="sign_out"),
    path("access", access.access, name="access"),
    path("access/accounts", access.create_account, name="create_account"),
    path("access/accounts/<path:name>/", access.account, name="account"),
    path("access/accounts/<path:name>/change", access.change, name="change_account"),
    path("access/accounts/<path:name>/password", access.password, name="set_password"),
    path("access/accounts/<path:name>/delete", access.delete, name="delete_account"),
    path("access/accounts/<path:name>/grants", access.add_grant, name="add_grant"),
    path("access/accounts/<path:name>/tokens", access.issue_token, name="issue_token"),
    path("access/grants/<int:number>/remove", access.remove_grant, name="remove_grant"),
    path("access/tokens/<int:number>/revoke", access.revoke_token, name="revoke_token"),
    path("audit", audit.audit, name="audit"),
    path("audit/<int:number>", audit.audit_entry, name="audit_entry"),
    path("topics/<path:name>/", objects.topic, name="topic"),
    path("groups/<path:name>/", group.group, name="group"),
]
