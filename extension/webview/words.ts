/**
 * The words of a picture, and the tree that says the same without one.
 *
 * Invariant: all that a box or an arrow shows is in the tree too, and nothing is told by colour or shape alone.
 */

import type { ArrowKind, GraphBox, GraphPicture, GraphPlace } from "../src/graph_messages";

const kinds: Readonly<Record<GraphBox["kind"], string>> = {
  target: "Target",
  graph: "Graph",
  empty: "Frame",
  eager: "Left to eager",
  break: "Graph break",
  more: "Not drawn",
};

const before: Readonly<Record<ArrowKind, string>> = {
  calls: "called from",
  breaks: "ends",
  "goes on": "goes on behind",
  "compiled again": "compiled again after",
  "left to eager": "left to eager after",
  "because of": "is why it is in eager:",
};

const after: Readonly<Record<ArrowKind, string>> = {
  calls: "calls",
  breaks: "ends at",
  "goes on": "goes on with",
  "compiled again": "compiled again as",
  "left to eager": "then",
  "because of": "because of",
};

/** The head of a box: what it is, and which. */
export function tagOf(box: GraphBox): string {
  const times = box.count > 1 && box.kind !== "more" ? ` x ${box.count}` : "";
  const again = box.again ? ", compiled again" : "";
  return `${[kinds[box.kind], box.name].filter((part) => part !== "").join(" ")}${times}${again}`;
}

/** A box in one line, without its facts. */
export function lineOf(box: GraphBox): string {
  const where = box.place === "" ? "" : `, ${box.place}`;
  return `${tagOf(box)}: ${box.title}${where}`;
}

/** A box in full, for who does not see it. */
export function spokenOf(box: GraphBox, picture: GraphPicture): string {
  const leads = picture.arrows.filter((arrow) => arrow.start === box.id).length;
  const ways = leads === 0 ? "leads nowhere" : `leads to ${leads} ${leads === 1 ? "box" : "boxes"}`;
  return [lineOf(box), ...box.facts, ways].join(". ");
}

/** One line of the tree. Enter goes to its place, or to the row of the box that it speaks of. */
export interface Row {
  readonly id: string;
  readonly text: string;
  readonly place: GraphPlace | null;
  readonly leadsTo: string | null;
  readonly children: readonly Row[];
}

/** One row for each box, in the order in which they were reached, over its facts and what it follows and leads to. */
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

/** The box that a key leads to: along an arrow or against it, or through all of them; the same one at an end. */
export function step(picture: GraphPicture, from: string, how: Step): string {
  const ids = picture.boxes.map((box) => box.id);
  const at = ids.indexOf(from);
  const along = (own: "start" | "end", other: "start" | "end") =>
    picture.arrows.find((arrow) => arrow[own] === from)?.[other] ?? from;
  switch (how) {
    case "follow":
      return along("start", "end");
    case "back":
      return along("end", "start");
    case "next":
      return ids[Math.min(at + 1, ids.length - 1)] ?? from;
    case "previous":
      return ids[Math.max(at - 1, 0)] ?? from;
    case "first":
      return ids[0] ?? from;
    case "last":
      return ids.at(-1) ?? from;
  }
}
