// Numbers, money and times for people. Digits stay the same in every language; only words differ.

/** The units of time in a language, the shortest first. */
const UNITS: Record<string, readonly [string, string, string, string]> = {
  en: ["s", "m", "h", "d"],
  ko: ["초", "분", "시간", "일"],
};

function unitsOf(language: string): readonly [string, string, string, string] {
  return UNITS[language] ?? ["s", "m", "h", "d"];
}

/** A time span in the two largest units that say something: `42s`, `3m 05s`, `2h 10m`, `4d 3h`. */
export function span(ms: number, language = "en"): string {
  const [second, minute, hour, day] = unitsOf(language);
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}${second}`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}${minute} ${String(seconds % 60).padStart(2, "0")}${second}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours}${hour} ${String(minutes % 60).padStart(2, "0")}${minute}`;
  return `${Math.floor(hours / 24)}${day} ${hours % 24}${hour}`;
}

/** How long ago, in the largest unit: `42s`, `3m`, `2h`, `4d`. */
export function age(ms: number, language = "en"): string {
  const [second, minute, hour, day] = unitsOf(language);
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}${second}`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}${minute}`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}${hour}`;
  return `${Math.floor(seconds / 86_400)}${day}`;
}

/** A number that fits into a column: `999`, `1.2k`, `3.4M`. */
export function short(count: number): string {
  if (count < 1000) return String(Math.round(count));
  for (const [size, mark] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (count >= size * 0.9995) {
      const value = count / size;
      return `${value < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${mark}`;
    }
  }
  return String(count);
}

/** A number in full, with thin gaps. */
export function full(count: number): string {
  return Math.round(count)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

/** US dollars; small sums with as many digits as they need. */
export function money(usd: number): string {
  if (usd === 0) return "$0";
  if (usd < 0.01) return `$${usd.toFixed(4)}`;
  return `$${usd.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ",")}`;
}

/** Parts of a hundred, whole; what is not all is never 100 %. */
export function percent(part: number, whole: number): number {
  if (whole <= 0) return 0;
  const value = Math.round((part / whole) * 100);
  return part < whole ? Math.min(99, value) : Math.min(100, value);
}

/** A time of day, with the date when it is not today. */
export function moment(iso: string, now: number, language: string): string {
  const at = new Date(iso);
  const time = at.toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  if (new Date(now).toDateString() === at.toDateString()) return time;
  return `${at.toLocaleDateString(language, { month: "short", day: "numeric" })} ${time}`;
}

/** The first characters of a commit. */
export function commitOf(sha: string): string {
  return sha.slice(0, 10);
}
