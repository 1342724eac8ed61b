// Puts a picture into the page the server rendered. Knows data- attributes; no sockets, no names.
// Every value becomes a text node or an attribute, never markup: names are other people's text.
//
//   data-value="a.b"      the text of this element is value a.b of the nearest row, or of the page
//   data-format="rate"    how the value is written (format.js)
//   data-level-of="a.b"   value a.b becomes data-level, which gives the element its look
//   data-link="/topics/"  the value becomes the last part of the address
//   data-link-of="a.b"    the last part is this value instead; without it there is no address
//   data-progress="a.b"   value a.b is how far this progress is, null for not known
//   data-path="a.b"       value a.b becomes the d of this path of an SVG
//   data-rows="a"         list a fills this table; data-id names what tells its rows apart
//   data-updates="a"      list a has newer values of rows of this table, or of what has a data-row
//                         within any other element; no row comes or goes

import { format } from "./format.js";

function at(source, path) {
  return path.split(".").reduce((value, name) => value?.[name], source);
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setOrRemove(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

export function fill(element, source) {
  const { value, format: kind, levelOf, link, linkOf, path, progress, rows, updates } = element.dataset;
  if (rows !== undefined) {
    fillRows(element, at(source, rows));
    return;
  }
  if (updates !== undefined) {
    updateRows(element, at(source, updates));
    return;
  }
  if (levelOf !== undefined) element.dataset.level = at(source, levelOf) ?? "";
  if (path !== undefined) element.setAttribute("d", at(source, path));
  if (progress !== undefined) setOrRemove(element, "value", at(source, progress));
  if (value !== undefined) {
    const found = at(source, value);
    setText(element, format(kind, found));
    if (kind === "short") element.title = format("count", found);
    if (link !== undefined) {
      const target = linkOf === undefined ? found : at(source, linkOf);
      setOrRemove(element, "href", target == null ? null : `${link}${encodeURIComponent(target)}/`);
    }
    return;
  }
  for (const child of element.children) fill(child, source);
}

function fillRows(table, items) {
  const name = table.dataset.rows;
  const scope = table.parentElement;
  const empty = scope.querySelector(`:scope > [data-when-empty="${name}"]`);
  const unknown = scope.querySelector(`:scope > [data-when-unknown="${name}"]`);
  table.hidden = !items || (empty !== null && items.length === 0);
  if (empty) empty.hidden = !items || items.length > 0;
  if (unknown) unknown.hidden = Boolean(items);
  if (!items) return;

  const pattern = table.querySelector(":scope > template");
  const present = new Map();
  for (const row of table.tBodies) present.set(row.dataset.row, row);
  items.forEach((item, index) => {
    const id = String(item[table.dataset.id]);
    let row = present.get(id);
    if (row === undefined) {
      row = pattern.content.firstElementChild.cloneNode(true);
      row.dataset.row = id;
    }
    present.delete(id);
    fill(row, item);
    placeRow(table, row, index);
  });
  for (const gone of present.values()) gone.remove();
}

function updateRows(table, items) {
  const newer = new Map(items.map((item) => [String(item[table.dataset.id]), item]));
  for (const row of table.tBodies ?? table.querySelectorAll("[data-row]")) {
    const item = newer.get(row.dataset.row);
    if (item !== undefined) fill(row, item);
  }
}

function placeRow(table, row, index) {
  // Moving a row that is in its place would take the focus from it.
  const occupant = table.tBodies[index];
  if (occupant !== row) table.insertBefore(row, occupant ?? table.querySelector(":scope > template"));
}
