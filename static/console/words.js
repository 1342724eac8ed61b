// The words that scripts put on pages, in the language of the page. Knows one element of it.
// apps/console/words.py has them all; the page brings them along.

const found = globalThis.document?.querySelector('meta[name="mqweb-words"]');
const words = JSON.parse(found?.content ?? "{}");

export function said(word, values = {}) {
  return words[word].replace(/%\((\w+)\)s/g, (_, name) => values[name]);
}
