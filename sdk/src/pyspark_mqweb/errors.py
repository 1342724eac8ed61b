"""What the source and the sink refuse. Knows texts only."""


class SourceError(Exception):
    """The root of what this package raises by itself."""


class BadOption(SourceError, ValueError):
    """An option is missing, unknown or out of its range; the text says which and what it may be."""


class BadColumns(SourceError, ValueError):
    """A schema asks for a column there is not, or for another type than it has."""


class DataLoss(SourceError):
    """Messages that were to be read are gone: deleted by retention, damaged, or never there.

    `failOnDataLoss=false` reads on without them.
    """


class SinkError(SourceError):
    """Rows cannot be sent as they are."""
