/**
 * The texts of a picture, and the tree with the same content.
 *
 * Invariant: the tree has everything that a box or an arrow shows, and nothing depends on color or shape alone.
 */

import type { ArrowKind, GraphBox, GraphPicture, GraphPlace } from "../../src/messages/page_types";

const kinds: Readonly<Record<GraphBox["kind"], string>> = {
  target: "Target",
  graph: "Graph",
  empty: "Frame",
  eager: "Eager",
  break: "Graph break",
  more: "Not drawn",
};

const before: Readonly<Record<ArrowKind, string>> = {
  calls: "called from",
  breaks: "ends",
  "goes on": "continues after",
  "compiled again": "recompiled after",
  "runs in eager": "runs eagerly after",
  "because of": "is the reason for eager:",
};

const after: Readonly<Record<ArrowKind, string>> = {
  calls: "calls",
  breaks: "ends at",
  "goes on": "continues with",
  "compiled again": "recompiled as",
  "runs in eager": "then runs eagerly",
  "because of": "because of",
};

/** The head of a box: its kind and its name. */
export function tagOf(box: GraphBox): string {
  const times = box.count > 1 && box.kind !== "more" ? ` × ${box.count}` : "";
  const again = box.again ? ", recompiled" : "";
  return `${[kinds[box.kind], box.name].filter((part) => part !== "").join(" ")}${times}${again}`;
}

/** A box in one line, without its facts. */
export function lineOf(box: GraphBox): string {
  const where = box.place === "" ? "" : `, ${box.place}`;
  return `${tagOf(box)}: ${box.title}${where}`;
}

/** What a screen reader says of the picture: a page that stands alone `opens` no lines. */
export function pictureLabel(title: string, opens: boolean): string {
  const enter = opens ? ", Enter goes to the line" : "";
  return `Picture of the graphs of ${title}. Down and up follow arrows, right and left go through all boxes${enter}.`;
}

/** The complete text of a box, for screen readers. */
export function spokenOf(box: GraphBox, picture: GraphPicture): string {
  const leads = picture.arrows.filter((arrow) => arrow.start === box.id).length;
  const ways = leads === 0 ? "leads to no box" : `leads to ${leads} ${leads === 1 ? "box" : "boxes"}`;
  return [lineOf(box), ...box.facts, ways].join(". ");
}

/** A row of the tree. Enter goes to its source line, or to the row of the box that it refers to. */
export interface Row {
  readonly id: string;
  readonly text: string;
  readonly place: GraphPlace | null;
  readonly leadsTo: string | null;
  readonly children: readonly Row[];
}

/** A row for each box, in the order in which Dynamo reached them, with its facts and its arrows as children. */
export function treeOf(picture: GraphPicture): readonly Row[] {
  const boxes = new Map(picture.boxes.map((box) => [box.id, box]));
  return picture.boxes.map((box) => {
    const leaf = (part: string, text: string): Row => ({
      id: `${box.id}/${part}`,
      text,
      place: null,
      leadsTo: null,
      children: [],
    });
    const ways = (own: "start" | "end", other: "start" | "end", words: Readonly<Record<ArrowKind, string>>) =>
      picture.arrows.flatMap((arrow, index): Row[] => {
        const there = boxes.get(arrow[other]);
        return arrow[own] === box.id && there !== undefined
          ? [{ ...leaf(`${own}/${index}`, `${words[arrow.kind]} ${lineOf(there)}`), leadsTo: there.id }]
          : [];
      });
    const members = box.members.map(
      (one, index): Row => ({
        ...leaf(`member/${index}`, memberOf(one)),
        place: one.uri === null ? null : one,
      }),
    );
    const rest = box.count - box.members.length;
    return {
      id: box.id,
      text: lineOf(box),
      place: box.uri === null ? null : box,
      leadsTo: null,
      children: [
        ...box.facts.map((fact, index) => leaf(`fact/${index}`, fact)),
        ...ways("end", "start", before),
        ...ways("start", "end", after),
        ...members,
        ...(box.members.length > 0 && rest > 0 ? [leaf("rest", `and ${rest} more`)] : []),
      ],
    };
  });
}

function memberOf(member: { readonly label: string; readonly place: string }): string {
  return member.place === "" ? member.label : `${member.label}, ${member.place}`;
}

export type Step = "follow" | "back" | "next" | "previous" | "first" | "last";

/** The box that a key selects: along or against an arrow, or the next in order; at an end, the same box. */
export function step(picture: GraphPicture, from: string, how: Step): string {
  const ids = picture.boxes.map((box) => box.id);
  const at = ids.indexOf(from);
  const along = (own: "start" | "end", other: "start" | "end") =>
    picture.arrows.find((arrow) => arrow[own] === from)?.[other] ?? from;
  const ways: Readonly<Record<Step, string | undefined>> = {
    follow: along("start", "end"),
    back: along("end", "start"),
    next: ids[Math.min(at + 1, ids.length - 1)],
    previous: ids[Math.max(at - 1, 0)],
    first: ids[0],
    last: ids.at(-1),
  };
  return ways[how] ?? from;
}
