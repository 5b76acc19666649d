// What a person chose about the page itself; kept by the browser, no secret in it.

/** Light, dark, or what the system says. */
export type Theme = "system" | "light" | "dark";
/** The languages of the page. */
export type Language = "en" | "ko";

function kept(name: string): string | null {
  try {
    return localStorage.getItem(`teamster.${name}`);
  } catch {
    return null;
  }
}

function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`teamster.${name}`, value);
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}

function languageOfBrowser(): Language {
  const wanted = typeof navigator === "undefined" ? [] : navigator.languages;
  const first = wanted.find((tag) => /^(en|ko)\b/i.test(tag));
  return first?.toLowerCase().startsWith("ko") ? "ko" : "en";
}

class Settings {
  theme = $state<Theme>("system");
  language = $state<Language>("en");

  constructor() {
    const theme = kept("theme");
    if (theme === "light" || theme === "dark") this.theme = theme;
    const language = kept("language");
    this.language = language === "en" || language === "ko" ? language : languageOfBrowser();
  }

  /** Another theme. */
  show(theme: Theme): void {
    this.theme = theme;
    keep("theme", theme);
  }

  /** Another language. */
  speak(language: Language): void {
    this.language = language;
    keep("language", language);
  }
}

/** What was chosen. */
export const settings = new Settings();
