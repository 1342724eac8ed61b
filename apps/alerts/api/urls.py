"""REST addresses of alerts, rules, silences and channels."""

from django.urls import path

from apps.alerts.api import channels, rules, views

urlpatterns = [
    path("alerts", views.AlertListView.as_view()),
    path("alerts/<str:alert>:acknowledge", views.AcknowledgeView.as_view()),
    path("alerts/<str:alert>", views.AlertView.as_view()),
    path("alert-rules", rules.RuleListView.as_view()),
    path("alert-rules/<str:rule>", rules.RuleView.as_view()),
    path("silences", rules.SilenceListView.as_view()),
    path("silences/<str:silence>:end", rules.SilenceEndView.as_view()),
    path("alert-channels", channels.ChannelListView.as_view()),
    path("alert-channels/<str:channel>:test", channels.ChannelTestView.as_view()),
    path("alert-channels/<str:channel>/deliveries", channels.DeliveryListView.as_view()),
    path("alert-channels/<str:channel>", channels.ChannelView.as_view()),
]
