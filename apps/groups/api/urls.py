"""REST addresses of groups and of the locks of their queues."""

from django.urls import path

from apps.groups.api.views import backlog, groups, locks

urlpatterns = [
    path("groups", groups.GroupListView.as_view()),
    path("groups/<str:group>", groups.GroupView.as_view()),
    path("groups/<str:group>/rebalances", groups.GroupRebalancesView.as_view()),
    path("groups/<str:group>/offsets", backlog.GroupOffsetsView.as_view()),
    path("groups/<str:group>/lag", backlog.GroupLagView.as_view()),
    path("groups/<str:group>/blocked", backlog.GroupBlockedView.as_view()),
    path("locks", locks.LockListView.as_view()),
    path("locks/<str:lock>/transitions", locks.LockTransitionsView.as_view()),
    path("locks/<str:lock>:release", locks.LockReleaseView.as_view()),
]
