/** What the code uses and Node 20 does not have. */

type GroupBy = <Key, Item>(
  items: Iterable<Item>,
  keyOf: (item: Item, index: number) => Key,
) => Map<Key, Item[]>;

const groupBy: GroupBy = (items, keyOf) => {
  const groups = new Map();
  let index = 0;
  for (const item of items) {
    const key = keyOf(item, index++);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return groups;
};

/** Call it before anything else. */
export function completeNode20(): void {
  (Map as { groupBy?: GroupBy }).groupBy ??= groupBy;
}
