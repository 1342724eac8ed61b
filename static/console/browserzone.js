// Offers the browser's own time zone among those to choose from. Knows one field, by its data- attribute.

import { said } from "./words.js";

const own = Intl.DateTimeFormat().resolvedOptions().timeZone;

for (const field of document.querySelectorAll("select[data-zones]")) {
  const isThere = [...field.options].some((option) => option.value === own);
  if (own && !isThere) field.add(new Option(said("browser_zone", { zone: own }), own));
}
