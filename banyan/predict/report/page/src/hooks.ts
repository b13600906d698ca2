import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import type { Shared } from "./state";
import { onTheme, theme, type Theme } from "./theme";

export function useTheme(): Theme {
  const [, again] = useState(0);
  useEffect(() => onTheme(() => again((n) => n + 1)), []);
  return theme();
}

export function useShared<T>(shared: Shared<T>): T {
  const [value, set] = useState(shared.value);
  useEffect(() => shared.listen(set), [shared]);
  return value;
}

// The width of an element: known before the first picture is taken of the page, and kept up to date.
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(element.current!.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}
