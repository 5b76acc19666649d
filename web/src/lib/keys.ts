// Keys of the whole page. A key that is typed into a field is text.

/** Whether a key was typed into something that takes text or moves by itself. */
function isTyped(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  if (!target) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** The shortcut that was pressed; `null` when none was. */
export function shortcutOf(event: KeyboardEvent): string | null {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyped(event)) return null;
  // Behind an open dialog nothing moves.
  if (document.querySelector("dialog[open]")) return null;
  return event.key;
}
