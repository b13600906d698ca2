import { useEffect, useState } from "preact/hooks";
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
