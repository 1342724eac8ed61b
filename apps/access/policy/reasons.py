"""Why something is not allowed: English that knows its parts. Pure: no framework, no language.

Programs and logs take it as the text it is. Who makes pages finds the sentence and what fills its
gaps, and says it in the language of whoever looks.
"""

from collections.abc import Mapping


class Reason(str):
    """An English sentence with the template and the values that it was made of."""

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, values: Mapping[str, str]) -> "Reason":
        """Fill the gaps, which are written `%(name)s`."""
        made = super().__new__(cls, template % values if values else template)
        made.template = template
        made.values = values
        return made

    def __reduce__(self) -> tuple[type["Reason"], tuple[str, Mapping[str, str]]]:
        """Keep the parts where the text is copied."""
        return Reason, (self.template, self.values)


def because(template: str, /, **values: str) -> Reason:
    """Return a reason; `make messages` finds the sentences by this name."""
    return Reason(template, values)
