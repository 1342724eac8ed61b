"""Where a run's rows came from and where they lie, in the shape of OpenLineage's run events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apps.pipelines.models import LakeFile, PipelineRun
from apps.pipelines.services.publications import InputRange, Publication
from apps.pipelines.tables import TABLES

_NAMESPACE = "mqweb"


def complete(
    run: PipelineRun, publication: Publication, files: Sequence[LakeFile], at: datetime
) -> dict[str, Any]:
    """Return the event that a run is complete."""
    return {
        "eventType": "COMPLETE",
        "eventTime": at.isoformat(),
        "run": {
            "runId": str(run.pk),
            "facets": {
                "nominalTime": {
                    "nominalStartTime": run.window_start.isoformat(),
                    "nominalEndTime": run.window_end.isoformat(),
                },
                "processing": {
                    "codeVersion": run.code_version,
                    "optionsHash": run.key,
                    "replaces": run.replaces_id,
                },
                **publication.facets,
            },
        },
        "job": {"namespace": _NAMESPACE, "name": run.job},
        "inputs": _inputs(publication.inputs),
        "outputs": _outputs(publication, files),
    }


def _inputs(ranges: Sequence[InputRange]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[InputRange]] = {}
    for one in ranges:
        found.setdefault((one.table, one.topic), []).append(one)
    return [
        {
            "namespace": f"{_NAMESPACE}/{table}",
            "name": topic or table,
            "inputFacets": {
                "rowCount": sum(one.rows for one in parts),
                "offsets": {
                    str(one.queue): [one.first_offset, one.end_offset] for one in parts if one.topic
                },
            },
        }
        for (table, topic), parts in sorted(found.items())
    ]


def _outputs(publication: Publication, files: Sequence[LakeFile]) -> list[dict[str, Any]]:
    tables = sorted({*publication.results, *(file.table for file in files)})
    return [
        {
            "namespace": f"{_NAMESPACE}/lake",
            "name": table,
            "facets": {
                "schema": {
                    "version": TABLES[table].version,
                    "fields": [
                        {"name": column.name, "type": column.kind.value}
                        for column in TABLES[table].columns
                    ],
                },
            },
            "outputFacets": {
                "rowCount": sum(file.rows for file in files if file.table == table),
                "size": sum(file.size_bytes for file in files if file.table == table),
                "files": [file.path for file in files if file.table == table],
            },
        }
        for table in tables
    ]
