"""`make messages`: bring the catalog up to the sources. Knows the files of gettext; no product.

    python -m tools.messages                    texts of the sources in, others out, compiled
    python -m tools.messages --join OTHER.po    and what is not translated here taken from there
    python -m tools.messages --only FOLDER      says what is not translated of one folder

The .po is what people write; the .mo beside it is what the product reads, and is committed too, so
that whoever runs it needs none of this.
"""

import argparse
import io
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from tools.texts import CONTEXT_END, ROOT, SOURCES, MessageId, texts_of

LOCALE = "zh_Hans"
PO = ROOT / "mqweb" / "locale" / LOCALE / "LC_MESSAGES" / "django.po"
MO = PO.with_suffix(".mo")

_HEADER = """\
# The console in Simplified Chinese. The words are those of docs/GLOSSARY.md.
# `make messages` sorts this file and compiles it.
msgid ""
msgstr ""
"Language: zh_Hans\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: nplurals=1; plural=0;\\n"

"""
# The time of compiling would make every .mo another one.
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def read_catalog(path: Path) -> Catalog:
    """Return what is written in a .po; nothing where there is no such file."""
    if not path.exists():
        return _empty()
    with path.open("rb") as file:
        return read_po(file, locale=LOCALE, ignore_obsolete=True, abort_invalid=True)


def catalog_of(texts: Iterable[MessageId], known: Iterable[Catalog]) -> Catalog:
    """Return a catalog of some texts, each as the first catalog that translates it has it."""
    made = _empty()
    known = list(known)
    for text in texts:
        context, first = _parts(text)
        id_ = first if isinstance(text, str) else text
        made.add(id_, _translation(text, known), context=context)
    return made


def po_of(catalog: Catalog) -> bytes:
    """Return a catalog as people edit it: sorted, one text a line, and no places."""
    written = io.BytesIO()
    write_po(written, catalog, width=0, no_location=True, omit_header=True, sort_output=True)
    return _HEADER.encode() + written.getvalue().strip() + b"\n"


def mo_of(catalog: Catalog) -> bytes:
    """Return a catalog as the product reads it; the same bytes for the same texts.

    What is not translated is left out: the product shows it as it is in the sources.
    """
    compiled = _empty()
    for message in catalog:
        if message.id and _is_translated(message):
            compiled.add(message.id, message.string, context=message.context)
    written = io.BytesIO()
    write_mo(written, compiled)
    return written.getvalue()


def untranslated(catalog: Catalog, texts: Iterable[MessageId]) -> list[str]:
    """Return the texts that a catalog has no translation of, in order."""
    lacking = (text for text in texts if not _is_translated(_message_of(text, catalog)))
    return sorted(_parts(text)[1] for text in lacking)


def _empty() -> Catalog:
    return Catalog(locale=LOCALE, creation_date=_NO_TIME, revision_date=_NO_TIME, fuzzy=False)


def _parts(text: MessageId) -> tuple[str | None, str]:
    """Return the context of a text, None without any, and its first form."""
    context, _, first = (text if isinstance(text, str) else text[0]).rpartition(CONTEXT_END)
    return context or None, first


def _message_of(text: MessageId, catalog: Catalog) -> Message | None:
    context, first = _parts(text)
    return catalog.get(first, context)


def _is_translated(message: Message | None) -> bool:
    if message is None or message.fuzzy:
        return False
    return all(_forms(message))


def _forms(message: Message) -> list[str]:
    """Return what a text is translated to, for each number there is a form of."""
    return [message.string] if isinstance(message.string, str) else list(message.string or [""])


def _translation(text: MessageId, known: list[Catalog]) -> str | tuple[str, ...]:
    """Return what the first catalog says that knows a text, in a plural form where it has one."""
    for catalog in known:
        message = _message_of(text, catalog)
        if message is not None and _is_translated(message):
            form, *_ = _forms(message)
            return form if isinstance(text, str) else (form,)
    return "" if isinstance(text, str) else ("",)


def main(arguments: list[str]) -> int:
    """Refresh the catalog; return how many texts are not translated, at most 1."""
    parser = argparse.ArgumentParser(description="Bring the catalog up to the sources.")
    parser.add_argument("--join", type=Path, nargs="*", default=[], help="take from these, too")
    parser.add_argument("--only", nargs="*", default=SOURCES, help="say what these lack")
    options = parser.parse_args(arguments)
    known = [read_catalog(path) for path in (PO, *options.join)]
    made = catalog_of(texts_of(*SOURCES), known)
    PO.write_bytes(po_of(made))
    made = read_catalog(PO)
    MO.write_bytes(mo_of(made))
    missing = untranslated(made, texts_of(*options.only))
    for text in missing:
        print(f"not translated: {text!r}")
    print(f"{len(made)} texts, {len(missing)} not translated")
    return min(len(missing), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
