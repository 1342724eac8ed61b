"""What jobs found out, for people: one model for each table that names one."""

from collections.abc import Mapping

from apps.pipelines.models.results.delivery import (
    DeadCause,
    DelayStat,
    LatenessBar,
    RebalanceHour,
    RetryStat,
)
from apps.pipelines.models.results.integrity import (
    Disorder,
    DuplicateTotal,
    Loss,
    LossTotal,
    QualityResult,
)
from apps.pipelines.models.results.load import BacklogPoint, HotKey, QueueShare, RateMinute
from apps.pipelines.models.results.result import Result

RESULTS: Mapping[str, type[Result]] = {
    model.__name__: model
    for model in (
        BacklogPoint,
        DeadCause,
        DelayStat,
        Disorder,
        DuplicateTotal,
        HotKey,
        LatenessBar,
        Loss,
        LossTotal,
        QualityResult,
        QueueShare,
        RateMinute,
        RebalanceHour,
        RetryStat,
    )
}
"""By name, as `tables.TABLES` names them."""
