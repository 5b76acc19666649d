// What the whole page shares: the teams, the team that is open, and what is said to the person.

import { Refused } from "./client";
import type { Teams } from "./overview.svelte";
import { settings } from "./settings.svelte";
import type { Team } from "./team.svelte";
import { named, t } from "./words.svelte";

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
      this.#refuse(error);
    } else {
      this.say(t("problemTitle"), true, error instanceof Error ? error.message : null);
    }
  }

  /** Says why something was not done: in English in the server's own words, in other languages by its kind and then in those. */
  #refuse({ kind, message, hint }: Refused): void {
    const word = named("refusal", kind);
    if (message === "") this.say(t("unreachable"), true, hint);
    else if (settings.language === "en" || word === kind) this.say(message, true, hint);
    else this.say(word, true, [message, hint].filter((part) => part).join(" "));
  }

  /** Takes it back. */
  hush(): void {
    this.notice = null;
  }
}

/** The page. */
export const studio = new Studio();
