//! Tests of what globs match, and that two globs which match the same path are always reported as overlapping.

use proptest::prelude::*;

use super::{Glob, may_overlap};

fn glob(text: &str) -> Glob {
    Glob::new(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_glob_matches_what_it_says() {
    for (text, path, wanted) in [
        ("src/*.rs", "src/main.rs", true),
        ("src/*.rs", "src/a/main.rs", false),
        ("src/**", "src/a/main.rs", true),
        ("src/**", "src", false),
        ("src/", "src/a", true),
        ("./src", "src/a/b", true),
        ("/src", "src/a/b", true),
        ("src", "src2/a", false),
        ("**/*.rs", "main.rs", true),
        ("**/*.rs", "a/b/main.rs", true),
        ("**", "anything/at all", true),
        ("a/**/b", "a/b", true),
        ("a/**/b", "a/x/y/b/c", true),
        ("a/**/b", "a/x/y", false),
        ("*.{rs,toml}", "Cargo.toml", true),
        ("*.{rs,toml}", "Cargo.lock", false),
        ("{a,b{c,d}}/x", "bd/x", true),
        ("[a-c]?", "b1", true),
        ("[!a-c]?", "b1", false),
        ("[]x]", "]", true),
        ("[a-]", "-", true),
        (r"\*", "*", true),
        (r"\*", "a", false),
        (r"\{a,b\}", "{a,b}", true),
        ("[{]", "{", true),
        ("ü?ß", "üxß", true),
        ("*a*b*", "xaxxbx", true),
        ("*a*b*", "xbxxax", false),
        ("a**b", "axxb", true),
    ] {
        assert_eq!(glob(text).matches(path), wanted, "{text} {path}");
    }
}

#[test]
fn what_is_no_glob_says_why() {
    for text in [
        "",
        "/",
        ".",
        "../x",
        "a/../b",
        "[a",
        "{a,b",
        "a\\",
        "[a/b]",
        "[z-a]",
        &"x".repeat(5000),
    ] {
        let error = Glob::new(text).expect_err(text);
        assert!(error.to_string().contains("is not a pattern"), "{error}");
    }
    assert!(
        Glob::new(&"{a,b}".repeat(12)).is_err(),
        "not exponentially many"
    );
}

#[test]
fn globs_that_cannot_meet_do_not() {
    for (one, other, wanted) in [
        ("src/a/**", "src/b/**", false),
        ("src/**", "src/b/c.rs", true),
        ("src", "src/b/c.rs", true),
        ("*.rs", "*.toml", false),
        ("*.rs", "main.*", true),
        ("**/*.rs", "docs/**", true),
        ("docs/*.md", "docs/*.txt", false),
        ("a/*/c", "a/b/d", false),
        ("a/*/c", "a/b", true),
        ("**/a", "b", true),
        ("[a-c]x", "[d-f]x", false),
        ("[!a-c]x", "bx", false),
        ("[!a-c]x", "[a-b]x", false),
        ("{a,b}/x", "{c,d}/x", false),
        ("{a,b}/x", "{b,c}/x", true),
    ] {
        assert_eq!(glob(one).overlaps(&glob(other)), wanted, "{one} {other}");
        assert_eq!(glob(other).overlaps(&glob(one)), wanted, "{other} {one}");
    }
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    assert!(may_overlap(&texts(&["a", "b/**"]), &texts(&["c", "b/x"])));
    assert!(!may_overlap(&texts(&["a"]), &texts(&["b"])));
    assert!(
        may_overlap(&texts(&["[broken"]), &texts(&["b"])),
        "what cannot be read could be anything"
    );
    assert!(
        !may_overlap(&[], &texts(&["**"])),
        "no paths, no reservation"
    );
}

#[test]
fn a_hostile_glob_takes_no_time() {
    let many = "**/*a*b*c*/".repeat(300);
    let path = "xaxbxcx/".repeat(300);
    assert!(glob(&many).matches(&path));
    assert!(glob(&many).overlaps(&glob(&many)));
    assert!(!glob(&format!("{many}end")).matches(&path));
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "c", "*", "?", "[ab]", "[!a]", "{a,bc}"]),
        1..4,
    )
    .prop_map(|pieces| pieces.concat())
}

fn pattern() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![3 => name(), 1 => Just("**".to_owned())], 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[abc]{1,3}", 1..5).prop_map(|parts| parts.join("/"))
}

proptest! {
    #[test]
    fn two_that_match_one_path_overlap(one in pattern(), other in pattern(), paths in prop::collection::vec(path(), 1..40)) {
        let (one, other) = (glob(&one), glob(&other));
        for path in paths {
            if one.matches(&path) && other.matches(&path) {
                prop_assert!(one.overlaps(&other) && other.overlaps(&one), "{path}");
            }
        }
    }

    #[test]
    fn every_glob_overlaps_itself_and_what_it_matches(text in pattern(), path in path()) {
        let one = glob(&text);
        prop_assert!(one.overlaps(&one));
        if one.matches(&path) {
            prop_assert!(one.overlaps(&glob(&path)), "{text} {path}");
            let below = format!("{path}/x");
            prop_assert!(one.matches(&below), "{text} {below}");
        }
    }

    #[test]
    fn any_text_is_a_glob_or_says_why(text in "\\PC{0,30}", path in "\\PC{0,30}") {
        if let Ok(one) = Glob::new(&text) {
            one.matches(&path);
            prop_assert!(one.overlaps(&one));
        }
    }
}
