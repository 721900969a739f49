import type { WorkflowNode } from "../api/types";

/** Box is a node of a drawn graph: a workflow's node, or several alike ones. */
export interface Box {
  id: string;
  nodes: WorkflowNode[];
  needs: string[]; // ids of boxes
}

const alike = 4; // nodes that are drawn as one, at least

/** boxes folds nodes that run the same, after and before the same nodes, into one box each, except those of the boxes in unfolded. */
export function boxes(nodes: WorkflowNode[], unfolded: ReadonlySet<string>): Box[] {
  const next = new Map<string, string[]>(); // the nodes after a node
  for (const n of nodes) for (const from of n.needs) next.set(from, [...(next.get(from) ?? []), n.id]);
  const groups = grouped(nodes, (n) => JSON.stringify([n.agent, n.tool, n.when, n.needs.toSorted(), next.get(n.id)?.toSorted()]));
  const list: Omit<Box, "needs">[] = [...groups.values()].flatMap((g) => {
    const [first] = g as [WorkflowNode];
    return g.length < alike || unfolded.has(first.id) ? g.map((n) => ({ id: n.id, nodes: [n] })) : [{ id: first.id, nodes: g }];
  });
  const boxOf = new Map(list.flatMap((b) => b.nodes.map((n) => [n.id, b.id] as const)));
  return list.map((b) => ({ ...b, needs: [...new Set(b.nodes[0]?.needs.map((id) => boxOf.get(id) ?? id))] }));
}

/** grouped returns the values by their keys, in order. */
export function grouped<T, K>(list: T[], keyOf: (value: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const value of list) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  places: Map<string, Point>; // top left corners
  routes: Map<string, string>; // SVG paths of edges, by from→to
  size: Point;
}

// Item is a box in its rank, or the place where lines pass through a rank.
interface Item {
  box?: Box;
  rank: number;
  before: Set<Item>; // linked items of the previous rank
  after: Set<Item>;
  at: number; // its center across the ranks
}

/** layout places boxes in ranks, from left to right or down. Edges pass between the boxes of a rank, not behind them. */
export function layout(list: Box[], width: number, height: number, down: boolean, unit: number): Layout {
  const [thick, wide, step] = down ? [height, width, height + 36 * unit] : [width, height, width + 64 * unit];
  const ranks = ranked(list, down);
  const items: Item[][] = Array.from({ length: Math.max(0, ...ranks.values()) + 1 }, () => []);
  const item = (rank: number, box?: Box): Item => {
    const made = { box, rank, before: new Set<Item>(), after: new Set<Item>(), at: 0 };
    const list = items[rank] ?? [];
    list.splice(box ? list.length : list.length / 2, 0, made); // lines pass in the middle
    return made;
  };
  const boxItems = new Map(list.map((b) => [b.id, item(ranks.get(b.id) ?? 0, b)]));
  const after = grouped(list.flatMap((b) => b.needs), (id) => id);
  const passing = new Map<string, Item>(); // edges of one box share their way
  const ways = new Map<string, Item[]>();
  for (const b of list) {
    for (const from of b.needs) {
      const [first, last] = [boxItems.get(from) as Item, boxItems.get(b.id) as Item];
      const shared = (after.get(from)?.length ?? 0) >= b.needs.length ? `${from}→` : `→${b.id}`;
      const way = [first];
      for (let rank = first.rank + 1; rank < last.rank; rank++) {
        const key = `${shared}@${rank}`;
        const pass = passing.get(key) ?? item(rank);
        passing.set(key, pass);
        way.push(pass);
      }
      way.push(last);
      ways.set(`${from}→${b.id}`, way);
      for (let i = 1; i < way.length; i++) {
        (way[i] as Item).before.add(way[i - 1] as Item);
        (way[i - 1] as Item).after.add(way[i] as Item);
      }
    }
  }
  arrange(items, (i) => (i.box ? wide : 0), 24 * unit);
  const low = Math.min(0, ...[...boxItems.values()].map((i) => i.at - wide / 2));
  const center = (i: Item): Point => {
    const [along, across] = [i.rank * step + thick / 2, i.at - low];
    return down ? { x: across, y: along } : { x: along, y: across };
  };
  const places = new Map([...boxItems].map(([id, i]) => [id, { x: center(i).x - width / 2, y: center(i).y - height / 2 }] as const));
  const routes = new Map([...ways].map(([id, way]) => [id, path(way.map(center), thick / 2, down)] as const));
  const most = (of: (p: Point) => number) => Math.max(0, ...[...places.values()].map(of));
  return { places, routes, size: { x: most((p) => p.x) + width, y: most((p) => p.y) + height } };
}

// The rank of each box: after all that it needs. A rank with many boxes continues in the ones after it.
function ranked(list: Box[], down: boolean): Map<string, number> {
  const byId = new Map(list.map((b) => [b.id, b]));
  const rankAll = (least: Map<string, string>) => {
    const ranks = new Map<string, number>();
    const rankOf = (b: Box): number => {
      const known = ranks.get(b.id);
      if (known !== undefined) return known;
      const behind = [...b.needs, least.get(b.id)].flatMap((id) => byId.get(id ?? "") ?? []);
      const rank = behind.reduce((r, n) => Math.max(r, rankOf(n) + 1), 0);
      ranks.set(b.id, rank);
      return rank;
    };
    for (const b of list) rankOf(b);
    return ranks;
  };
  const first = rankAll(new Map());
  const behind = new Map<string, string>(); // in the same rank at first
  for (const rank of grouped(list, (b) => first.get(b.id)).values()) {
    const most = down ? 3 : Math.max(8, Math.round(Math.sqrt(1.3 * rank.length))); // about as wide as the window
    for (const [i, b] of rank.slice(most).entries()) behind.set(b.id, (rank[i] as Box).id);
  }
  return rankAll(behind);
}

const sweeps = 6;

// Orders the items of each rank by those they are linked to, and places them as near to those as there is space.
function arrange(ranks: Item[][], sizeOf: (i: Item) => number, gap: number) {
  const mean = (linked: Iterable<Item>, otherwise: number) => {
    let [sum, n] = [0, 0];
    for (const i of linked) [sum, n] = [sum + i.at, n + 1];
    return n > 0 ? sum / n : otherwise;
  };
  const place = (rank: Item[], wanted: (i: Item) => number) => {
    const goals = new Map(rank.map((i) => [i, wanted(i)]));
    rank.sort((a, b) => (goals.get(a) as number) - (goals.get(b) as number));
    let offset = 0;
    const offsets = rank.map((i, n) => {
      const before = rank[n - 1];
      if (before) offset += (sizeOf(before) + sizeOf(i)) / 2 + (before.box && i.box ? gap : gap / 2);
      return offset;
    });
    const even = rising(rank.map((i, n) => (goals.get(i) as number) - (offsets[n] as number)));
    for (const [n, i] of rank.entries()) i.at = (even[n] as number) + (offsets[n] as number);
  };
  for (const rank of ranks) for (const [n, i] of rank.entries()) i.at = n;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    for (const rank of ranks) place(rank, (i) => mean(i.before, i.at));
    for (const rank of ranks.toReversed()) place(rank, (i) => mean(i.after, i.at));
  }
  for (const rank of ranks) place(rank, (i) => mean([...i.before, ...i.after], i.at));
}

// The nearest values that do not fall: neighbours that do are replaced by their mean.
function rising(values: number[]): number[] {
  const blocks: { sum: number; n: number }[] = [];
  for (const v of values) {
    let block = { sum: v, n: 1 };
    for (let last = blocks.at(-1); last && last.sum / last.n > block.sum / block.n; last = blocks.at(-1)) {
      block = { sum: last.sum + block.sum, n: last.n + block.n };
      blocks.pop();
    }
    blocks.push(block);
  }
  return blocks.flatMap(({ sum, n }) => Array<number>(n).fill(sum / n));
}

// A line from the end of the first rank to the beginning of the last. It crosses the ranks between straight, and bends in the gaps.
function path(points: Point[], half: number, down: boolean): string {
  const along = (p: Point) => (down ? p.y : p.x);
  const at = (p: Point, by: number) => (down ? { x: p.x, y: p.y + by } : { x: p.x + by, y: p.y });
  const text = (p: Point) => `${Math.round(p.x)},${Math.round(p.y)}`;
  let d = `M${text(at(points[0] as Point, half))}`;
  for (let i = 1; i < points.length; i++) {
    const [from, to] = [at(points[i - 1] as Point, half), at(points[i] as Point, -half)];
    const bend = (along(to) - along(from)) / 2;
    d += `C${text(at(from, bend))} ${text(at(to, -bend))} ${text(to)}`;
    if (i < points.length - 1) d += `L${text(at(points[i] as Point, half))}`;
  }
  return d;
}
