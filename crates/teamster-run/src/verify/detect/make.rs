//! A makefile with a target `test`.

use super::Search;

/// In the order in which make itself looks.
const FILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];

pub(super) fn search(search: &mut Search<'_>) {
    let Some(file) = FILES.into_iter().find(|file| search.has(file)) else {
        return;
    };
    if let Some(text) = search.text(file)
        && text.lines().any(is_test_rule)
    {
        search.add("make", "make test", file);
    }
}

/// Whether a line begins the rule for `test`, alone or among others.
fn is_test_rule(line: &str) -> bool {
    // Recipes begin with a tab, and nothing else of interest is indented.
    if line.starts_with(['\t', ' ', '#']) {
        return false;
    }
    let Some((targets, rest)) = line.split_once(':') else {
        return false;
    };
    // `test := x`, `test ::= x` and `test = a:b` give a variable its value.
    let is_variable = rest.trim_start_matches(':').starts_with('=') || targets.contains('=');
    !is_variable && targets.split_whitespace().any(|target| target == "test")
}

#[cfg(test)]
mod tests {
    use super::is_test_rule;

    #[test]
    fn only_a_rule_is_a_target() {
        for rule in [
            "test:",
            "test: build",
            "test ::",
            "check test: x",
            "test:;echo",
        ] {
            assert!(is_test_rule(rule), "{rule}");
        }
        for other in [
            ".PHONY: test",
            "test := x",
            "test::=x",
            "test = a:b",
            "\ttest: x",
            "# test: x",
            "tests: x",
            "all: test",
            "test",
            "",
            ":",
        ] {
            assert!(!is_test_rule(other), "{other}");
        }
    }
}
