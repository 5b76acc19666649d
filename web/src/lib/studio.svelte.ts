// What the whole page shares: the teams, the team that is open, and what is said to the person.

import { Refused } from "./client";
import type { Teams } from "./overview.svelte";
import type { Team } from "./team.svelte";
import { t } from "./words.svelte";

/** Something that is said for a moment. */
export interface Notice {
  bad: boolean;
  text: string;
  hint: string | null;
}

class Studio {
  teams = $state.raw<Teams | null>(null);
  team = $state.raw<Team | null>(null);
  notice = $state.raw<Notice | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Says something. */
  say(text: string, bad = false, hint: string | null = null): void {
    clearTimeout(this.#timer);
    this.notice = { bad, text, hint };
    this.#timer = setTimeout(() => this.hush(), bad ? 15_000 : 5_000);
  }

  /** Says what went wrong. */
  complain(error: unknown): void {
    if (error instanceof Refused) {
      this.say(error.message || t("unreachable"), true, error.hint);
    } else {
      this.say(t("problemTitle"), true, error instanceof Error ? error.message : null);
    }
  }

  /** Takes it back. */
  hush(): void {
    this.notice = null;
  }
}

/** The page. */
export const studio = new Studio();
