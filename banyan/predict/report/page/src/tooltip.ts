// One tooltip for the whole page: a title and rows of "what: how much". Everything is set as text.

export type Row = [string, string];

const box = document.createElement("div");
box.className = "tooltip";
box.setAttribute("role", "status");
box.hidden = true;

export function showTooltip(x: number, y: number, title: string, rows: Row[]) {
  if (!box.isConnected) document.body.append(box);
  box.replaceChildren();
  const head = document.createElement("strong");
  head.textContent = title;
  const list = document.createElement("dl");
  for (const [what, value] of rows) {
    const term = document.createElement("dt"),
      detail = document.createElement("dd");
    term.textContent = what;
    detail.textContent = value;
    list.append(term, detail);
  }
  box.append(head, list);
  box.hidden = false;
  const left = x + 16 + box.offsetWidth > innerWidth ? x - 14 - box.offsetWidth : x + 16;
  const top = y + 14 + box.offsetHeight > innerHeight ? y - 12 - box.offsetHeight : y + 14;
  box.style.left = Math.max(4, left) + "px";
  box.style.top = Math.max(4, top) + "px";
}

export function hideTooltip() {
  box.hidden = true;
}
