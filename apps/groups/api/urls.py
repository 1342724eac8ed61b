"""REST addresses of groups and of the locks of their queues."""

from django.urls import path

from apps.groups.api.views import backlog, care, groups, lites, locks, offsets

urlpatterns = [
    path("groups", groups.GroupListView.as_view()),
    path("groups/<str:group>", groups.GroupView.as_view()),
    path("groups/<str:group>/rebalances", groups.GroupRebalancesView.as_view()),
    path("groups/<str:group>/offsets", backlog.GroupOffsetsView.as_view()),
    path("groups/<str:group>/offsets:preview", offsets.PreviewView.as_view()),
    path("groups/<str:group>/offsets:apply", offsets.ApplyView.as_view()),
    path("groups/<str:group>/offsets:undo", offsets.UndoView.as_view()),
    path("groups/<str:group>/offset-resets", offsets.ResetListView.as_view()),
    path("groups/<str:group>/assignment:what-if", offsets.WhatIfView.as_view()),
    path("groups/<str:group>/queues/<str:topic>/<int:queue>:suspend", care.SuspendView.as_view()),
    path("groups/<str:group>/queues/<str:topic>/<int:queue>:resume", care.ResumeView.as_view()),
    path("groups/<str:group>/queues/<str:topic>/<int:queue>:skip", care.SkipView.as_view()),
    path("groups/<str:group>/queues/<str:topic>/<int:queue>:park", care.ParkView.as_view()),
    path("groups/<str:group>/lag", backlog.GroupLagView.as_view()),
    path("groups/<str:group>/blocked", backlog.GroupBlockedView.as_view()),
    path("groups/<str:group>/lite-subscriptions", lites.LiteSubscriptionListView.as_view()),
    path("locks", locks.LockListView.as_view()),
    path("locks/<str:lock>/transitions", locks.LockTransitionsView.as_view()),
    path("locks/<str:lock>/refusals", locks.LockRefusalsView.as_view()),
    path("locks/<str:lock>:release", locks.LockReleaseView.as_view()),
]
