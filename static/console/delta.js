// Makes the next value of JSON out of one and a delta. Pure; apps/console/deltas.py makes them.
// What has not changed is the same object afterwards, and nothing is changed in place.

export function applied(value, delta) {
  if ("=" in delta) return delta["="];
  return "by" in delta ? appliedToRows(value, delta) : appliedToObject(value, delta);
}

function appliedToObject(value, { "+": added = {}, "~": changed = {}, "-": gone = [] }) {
  const next = { ...value, ...added };
  for (const [name, delta] of Object.entries(changed)) next[name] = applied(value[name], delta);
  for (const name of gone) delete next[name];
  return next;
}

function appliedToRows(rows, { by, "+": added = {}, "~": changed = {}, order }) {
  const byId = new Map(rows.map((row) => [String(row[by]), row]));
  for (const [id, row] of Object.entries(added)) byId.set(id, row);
  for (const [id, delta] of Object.entries(changed)) byId.set(id, applied(byId.get(id), delta));
  return (order ?? rows.map((row) => String(row[by]))).map((id) => byId.get(id));
}
