"""What a run of a pipeline can be stopped by. Knows no Spark and no models.

PipelineError
├── RunLost                 somebody else has the run now, or it has ended; nothing was published
├── PositionMoved           somebody else copied the same messages first; a new run goes on behind
├── NotReconciled           rows were lost or made on the way; nothing was published
├── RuleBroken              an output breaks what its table promises; nothing was published
├── NotCopied               bronze does not have the whole window, also after a copy for it
├── LakeDamaged             a file of the manifest is gone, or is not what was published
├── TooManyRows             a result is too large for what it is made for
└── CannotRun               the run asks for what its job does not do
"""

from typing import ClassVar


class PipelineError(Exception):
    """The root: every one has a stable `code` and says whether the same run may yet succeed."""

    code: ClassVar[str] = "pipeline_error"
    retriable: ClassVar[bool] = False


class RunLost(PipelineError):
    """The run belongs to another worker, was cancelled or has ended."""

    code = "run_lost"


class PositionMoved(PipelineError):
    """Positions are not where they were when the run was planned."""

    code = "position_moved"
    retriable = True


class NotReconciled(PipelineError):
    """Expected, read and written rows are not the same."""

    code = "not_reconciled"


class RuleBroken(PipelineError):
    """A key is there twice, or a value is missing that must be there."""

    code = "rule_broken"


class NotCopied(PipelineError):
    """Messages of the window are still to be copied to bronze."""

    code = "not_copied"
    retriable = True


class LakeDamaged(PipelineError):
    """A file is not what the manifest says."""

    code = "lake_damaged"


class TooManyRows(PipelineError):
    """A result has more rows than the driver is to hold."""

    code = "too_many_rows"


class CannotRun(PipelineError):
    """The job cannot do what is asked."""

    code = "cannot_run"
