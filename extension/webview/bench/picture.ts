/** All charts of the page with their names, as one PNG. */

import type { Chart } from "../measured/chart";
import { readTheme } from "../measured/theme";

const scale = 2;
const [margin, heading] = [16, 28];

/** A data URL, with `about` below the title; empty without charts. */
export function pictureOf(title: string, about: string, charts: readonly Chart[]): string {
  const drawn = charts.flatMap((chart) => {
    const made = chart.picture();
    return made === null ? [] : [{ name: chart.name, made }];
  });
  const paper = document.createElement("canvas");
  const pen = paper.getContext("2d");
  if (drawn.length === 0 || pen === null) {
    return "";
  }
  const theme = readTheme();
  paper.width = Math.max(...drawn.map(({ made }) => made.width)) + 2 * margin * scale;
  paper.height =
    (2 * margin + 2 * heading) * scale +
    drawn.reduce((sum, { made }) => sum + made.height + heading * scale, 0);
  pen.fillStyle = theme.background;
  pen.fillRect(0, 0, paper.width, paper.height);
  let y = margin * scale;
  const write = (text: string, size: number, weight = 600) => {
    pen.fillStyle = theme.text;
    pen.font = `${weight} ${size * scale}px ${theme.font}`;
    pen.textBaseline = "top";
    pen.fillText(text, margin * scale, y, paper.width - 2 * margin * scale);
    y += heading * scale;
  };
  write(title, theme.size + 3);
  write(about, theme.size, 400);
  for (const { name, made } of drawn) {
    write(name, theme.size);
    pen.drawImage(made, margin * scale, y);
    y += made.height;
  }
  return paper.toDataURL("image/png");
}
