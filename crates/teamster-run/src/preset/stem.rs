//! Finds a keyword in a sentence, in whatever form it occurs.
//!
//! A Latin word is compared by its stem: `errors`, `deployment` and `fix_task` are forms of `error`, `deploy` and `fix`.
//! Only endings that make another form of the same word are removed, so `terror`, `debugger` and `exceptional` stay
//! words of their own. The parts of a name in camel case are compared, too: `TypeError` contains `error`.
//!
//! Korean writes particles, endings and compounds without a space, so a Korean keyword is searched for anywhere: `버그를`,
//! `서버장애가`. Syllables are decomposed into letters first, because an ending can change the last one: `고치다` occurs in
//! `고쳐`. The few common words that contain a keyword by chance are listed.

use std::ops::Range;

/// Common words that contain a keyword but mean something else: debug, disabled person, obstacle, distribution.
const OTHER_WORDS: [&str; 5] = ["디버그", "장애인", "장애물", "배포판", "배포본"];
/// The dictionary ending of a Korean verb.
const VERB: char = '다';
/// Verbs that turn a noun into a verb; only the noun is searched for.
const VERB_OF_NOUN: [&str; 2] = ["하다", "되다"];
/// The shortest stem that an ending such as `-ment` may leave, so that `comment` stays whole.
const LONG: usize = 4;

/// A sentence in which keywords are searched.
pub(super) struct SearchedText {
    /// The words of the sentence that are not Korean, in order.
    words: Vec<WordPlace>,
    letters: Vec<(char, usize)>,
    len: usize,
}

/// The part that all forms of a word have in common. It is compared with others, and need not be a word itself.
#[derive(Debug)]
struct Stem {
    base: String,
    /// Whether the word may end with an `e` that this form lacks, as `cache` in `caching`.
    may_lack_e: bool,
}

/// The stem of a word, and its position.
#[derive(Debug)]
struct WordPlace {
    stem: Stem,
    place: Range<usize>,
    /// The number of the word in the sentence. The parts of a name in camel case have the number of the whole.
    number: usize,
}

impl SearchedText {
    pub(super) fn new(text: &str) -> Self {
        Self {
            words: words(text),
            letters: letters(text),
            len: text.len(),
        }
    }

    /// Returns every position of a keyword.
    pub(super) fn find(&self, keyword: &str) -> Vec<Range<usize>> {
        let keyword = keyword.trim();
        if keyword.is_empty() {
            return Vec::new();
        }
        if keyword.chars().any(is_hangul) {
            return self.find_korean(keyword);
        }
        let is_of_words = |c: char| is_of_word(c) || c == '-' || c.is_whitespace();
        if keyword.chars().all(is_of_words) {
            self.find_words(keyword)
        } else {
            self.find_literal(keyword)
        }
    }

    fn find_words(&self, keyword: &str) -> Vec<Range<usize>> {
        let parts: Vec<Stem> = pieces(keyword)
            .map(|place| Stem::of(&keyword[place]))
            .collect();
        let Some((first, rest)) = parts.split_first() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for word in self.words.iter().filter(|word| word.stem.is_same(first)) {
            let mut end = word.place.end;
            let follows = (word.number + 1..).zip(rest).all(|(number, part)| {
                let mut next = self.words.iter();
                let next = next.find(|next| next.number == number && next.stem.is_same(part));
                end = next.map_or(end, |next| next.place.end);
                next.is_some()
            });
            if follows {
                found.push(word.place.start..end);
            }
        }
        found
    }

    /// Finds a keyword such as `c++`, which contains punctuation: literally, and not inside another word.
    fn find_literal(&self, keyword: &str) -> Vec<Range<usize>> {
        let wanted: Vec<char> = keyword.chars().flat_map(char::to_lowercase).collect();
        let is_part = |at: Option<usize>| {
            let letter = at.and_then(|at| self.letters.get(at));
            letter.is_some_and(|(letter, _)| is_of_word(*letter))
        };
        self.occurrences(&wanted)
            .filter(|at| !is_part(at.checked_sub(1)) && !is_part(Some(at + wanted.len())))
            .map(|at| self.place(at, wanted.len()))
            .collect()
    }

    fn find_korean(&self, keyword: &str) -> Vec<Range<usize>> {
        let noun = VERB_OF_NOUN
            .iter()
            .find_map(|end| keyword.strip_suffix(end));
        let noun = noun.filter(|noun| !noun.is_empty()).unwrap_or(keyword);
        let mut found = self.find_noun(noun);
        // One syllable is too short to be recognized.
        if let Some(verb) = noun.strip_suffix(VERB)
            && verb.chars().count() > 1
        {
            for form in verb_forms(verb) {
                found.extend(self.find_letters(&form, true));
            }
        }
        found.dedup();
        found
    }

    fn find_noun(&self, noun: &str) -> Vec<Range<usize>> {
        let wanted: Vec<char> = letters(noun).into_iter().map(|(c, _)| c).collect();
        let mut found = self.find_letters(&wanted, false);
        for other in OTHER_WORDS.iter().filter(|other| other.contains(noun)) {
            if *other != noun {
                let other: Vec<char> = letters(other).into_iter().map(|(c, _)| c).collect();
                let others = self.find_letters(&other, true);
                found.retain(|place| !others.iter().any(|other| is_inside(place, other)));
            }
        }
        found
    }

    /// Finds a sequence of letters. Unless `goes_on` is set, the last syllable must end with them.
    fn find_letters(&self, wanted: &[char], goes_on: bool) -> Vec<Range<usize>> {
        let is_whole = |at: &usize| {
            let next = self.letters.get(at + wanted.len());
            goes_on || !next.is_some_and(|(letter, _)| is_final(*letter))
        };
        self.occurrences(wanted)
            .filter(is_whole)
            .map(|at| self.place(at, wanted.len()))
            .collect()
    }

    fn occurrences(&self, wanted: &[char]) -> impl Iterator<Item = usize> {
        let windows = self.letters.windows(wanted.len().max(1)).enumerate();
        windows.filter_map(move |(at, window)| {
            let same = window.iter().map(|(letter, _)| letter).eq(wanted);
            same.then_some(at)
        })
    }

    /// Returns the position of letters in the sentence.
    fn place(&self, at: usize, count: usize) -> Range<usize> {
        let begin = self.letters.get(at).map_or(self.len, |(_, place)| *place);
        let last = self.letters.get(at + count - 1);
        let last = last.map_or(self.len, |(_, place)| *place);
        let after = self.letters[at..].iter().find(|(_, place)| *place > last);
        begin..after.map_or(self.len, |(_, place)| *place)
    }
}

/// Returns whether a range lies inside another one and is shorter.
pub(super) fn is_inside(place: &Range<usize>, other: &Range<usize>) -> bool {
    other.start <= place.start && place.end <= other.end && place.len() < other.len()
}

/// Returns the words of a text: all of them, the parts of those in camel case, and hyphenated words as one word.
fn words(text: &str) -> Vec<WordPlace> {
    let mut words: Vec<WordPlace> = Vec::new();
    let places: Vec<Range<usize>> = pieces(text).collect();
    for (number, place) in places.iter().enumerate() {
        let word = &text[place.clone()];
        let mut add = |word: &str, place: Range<usize>| {
            let stem = Stem::of(word);
            words.push(WordPlace {
                stem,
                place,
                number,
            });
        };
        add(word, place.clone());
        for part in camel_parts(word) {
            let at = place.start + part.start..place.start + part.end;
            add(&word[part], at);
        }
        if let Some(next) = places.get(number + 1)
            && &text[place.end..next.start] == "-"
        {
            let joined = format!("{word}{}", &text[next.clone()]);
            add(&joined, place.start..next.end);
        }
    }
    words
}

/// Returns the positions of the words of a text that are not Korean.
fn pieces(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = rest.find(|(_, c)| is_of_word(*c))?;
        let mut end = text.len();
        while let Some((at, c)) = rest.peek() {
            if !is_of_word(*c) {
                end = *at;
                break;
            }
            rest.next();
        }
        Some(start..end)
    })
}

/// Returns the parts of a name in camel case; nothing for any other word.
fn camel_parts(word: &str) -> Vec<Range<usize>> {
    if !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Vec::new();
    }
    let bytes = word.as_bytes();
    let is_upper = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
    let is_lower = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_lowercase);
    let begins = |at: &usize| {
        let is_hump = is_lower(at - 1);
        // The last capital of several begins a word, as in `HTTPError`; the `s` of `APIs` is none.
        let is_after_acronym = is_upper(at - 1) && is_lower(at + 1) && is_lower(at + 2);
        is_upper(*at) && (is_hump || is_after_acronym)
    };
    let begins: Vec<usize> = (1..word.len()).filter(begins).collect();
    if begins.is_empty() {
        return Vec::new();
    }
    let starts = std::iter::once(0).chain(begins.iter().copied());
    let ends = begins.iter().copied().chain([word.len()]);
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

impl Stem {
    fn of(word: &str) -> Self {
        let mut stem = Self {
            base: word.to_lowercase(),
            may_lack_e: false,
        };
        if stem.base.bytes().all(|byte| byte.is_ascii_lowercase()) {
            let lost_by_plural = singular(&mut stem.base);
            stem.may_lack_e = without_tense(&mut stem.base) || lost_by_plural;
            for ending in ["ment", "ness"] {
                cut(&mut stem.base, ending, "", LONG);
            }
        }
        stem
    }

    /// Returns whether both are stems of the same word.
    fn is_same(&self, other: &Self) -> bool {
        let is_with_e = |short: &Self, long: &Self| {
            short.may_lack_e && long.base.strip_suffix('e') == Some(&short.base)
        };
        self.base == other.base || is_with_e(self, other) || is_with_e(other, self)
    }
}

/// Replaces an ending if at least `least` letters precede it; returns whether it was there.
fn cut(word: &mut String, ending: &str, by: &str, least: usize) -> bool {
    let Some(rest) = word.strip_suffix(ending).filter(|rest| rest.len() >= least) else {
        return false;
    };
    *word = format!("{rest}{by}");
    true
}

/// Removes the ending of a plural, or of a verb in the third person; returns whether that may have removed an `e` with
/// it.
fn singular(word: &mut String) -> bool {
    if cut(word, "ies", "y", 2) || word.ends_with("ss") {
        return false;
    }
    let is_after_hiss = ["sses", "shes", "ches", "xes", "zes"]
        .iter()
        .any(|ending| word.ends_with(ending));
    let ending = if is_after_hiss { "es" } else { "s" };
    cut(word, ending, "", 2) && is_after_hiss
}

/// Removes the ending of a past tense or a participle, and of an adjective such as `buggy`; returns whether the verb
/// may have lost an `e`.
fn without_tense(word: &mut String) -> bool {
    if cut(word, "ggy", "g", 1) || cut(word, "ied", "y", 2) || word.ends_with("eed") {
        return false;
    }
    for ending in ["ing", "ed"] {
        let Some(rest) = word.strip_suffix(ending) else {
            continue;
        };
        let is_verb = rest.len() > 1 && rest.bytes().any(|byte| b"aeiouy".contains(&byte));
        if !is_verb {
            return false;
        }
        *word = rest.to_owned();
        let doubled = ["bb", "dd", "gg", "mm", "nn", "pp", "rr", "tt"];
        let is_doubled = doubled.iter().any(|end| word.ends_with(end));
        if is_doubled {
            word.pop();
        }
        return !is_doubled;
    }
    false
}

/// Returns the letters of a text in lower case, with Korean syllables decomposed, each with its position.
fn letters(text: &str) -> Vec<(char, usize)> {
    let mut letters = Vec::with_capacity(text.len());
    for (place, c) in text.char_indices() {
        match syllable(c) {
            Some((initial, vowel, end)) => {
                let parts = [Some(initial), Some(vowel), end];
                letters.extend(parts.into_iter().flatten().map(|part| (part, place)));
            }
            None => letters.extend(c.to_lowercase().map(|c| (c, place))),
        }
    }
    letters
}

const FIRST_SYLLABLE: u32 = 0xac00;
const LAST_SYLLABLE: u32 = 0xd7a3;
const INITIAL: u32 = 0x1100;
const VOWEL: u32 = 0x1161;
/// The code point before the first letter that can end a syllable.
const NO_FINAL: u32 = 0x11a7;
const VOWELS: u32 = 21;
const FINALS: u32 = 28;
/// The final letter that some verbs drop before an ending.
const FINAL_R: char = '\u{11af}';

/// Decomposes a Korean syllable: its initial letter, its vowel, and its final letter.
fn syllable(c: char) -> Option<(char, char, Option<char>)> {
    let code = u32::from(c);
    if !(FIRST_SYLLABLE..=LAST_SYLLABLE).contains(&code) {
        return None;
    }
    let place = code - FIRST_SYLLABLE;
    let initial = char::from_u32(INITIAL + place / (VOWELS * FINALS))?;
    let vowel = char::from_u32(VOWEL + place % (VOWELS * FINALS) / FINALS)?;
    let end = match place % FINALS {
        0 => None,
        end => char::from_u32(NO_FINAL + end),
    };
    Some((initial, vowel, end))
}

fn is_final(c: char) -> bool {
    matches!(c, '\u{11a8}'..='\u{11c2}')
}

/// Returns how a verb can begin, whatever its ending: unchanged, with its last vowel contracted with that of the
/// ending, and without a final `ㄹ`.
fn verb_forms(verb: &str) -> Vec<Vec<char>> {
    let plain: Vec<char> = letters(verb).into_iter().map(|(c, _)| c).collect();
    let mut forms = vec![plain.clone()];
    let Some((last, before)) = plain.split_last() else {
        return forms;
    };
    let joined: &[char] = match last {
        // ㅣ and ㅓ are ㅕ, ㅗ and ㅏ are ㅘ, ㅜ and ㅓ are ㅝ; ㅡ gives way to either.
        '\u{1175}' => &['\u{1167}'],
        '\u{1169}' => &['\u{116a}'],
        '\u{116e}' => &['\u{116f}'],
        '\u{1173}' => &['\u{1165}', '\u{1161}'],
        &FINAL_R => {
            forms.push(before.to_vec());
            &[]
        }
        _ => &[],
    };
    for vowel in joined {
        let mut form = before.to_vec();
        form.push(*vowel);
        forms.push(form);
    }
    forms
}

/// Returns whether a character beside a Latin word makes it another word. A Korean particle does not: in "api를" the word is api.
fn is_of_word(c: char) -> bool {
    (c.is_alphanumeric() || c == '_') && !is_hangul(c)
}

fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}')
}
