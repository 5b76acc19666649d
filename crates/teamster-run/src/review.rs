//! The answer of a reviewer: a verdict, findings with their locations, and the state of each acceptance criterion.
//!
//! An answer is untrusted text. A finding is kept only if its location exists in the commit that was reviewed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use teamster_journal::payload::{Criterion, ReviewFinding, ReviewVerdict};

use crate::leader::last_object;

/// The most findings of one review. More are dropped, the least severe first.
const MOST_FINDINGS: usize = 100;
/// The longest text of a finding, in characters.
const LONGEST: usize = 2_000;

/// Refuses a finding whose text is empty or too long.
pub(crate) fn check_finding(finding: &ReviewFinding) -> Result<(), String> {
    if finding.claim.trim().is_empty() {
        return Err("the claim of a finding is empty".to_owned());
    }
    let texts = [&finding.claim, &finding.evidence, &finding.suggestion];
    if texts.iter().any(|text| text.chars().count() > LONGEST) {
        return Err(format!(
            "a text of a finding has at most {LONGEST} characters"
        ));
    }
    if finding.line.is_some() && finding.path.is_none() {
        return Err("a finding with a line needs a path".to_owned());
    }
    Ok(())
}

/// A usable review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Review {
    /// The verdict.
    pub verdict: ReviewVerdict,
    /// The findings, the worst first.
    pub findings: Vec<ReviewFinding>,
    /// The state of the acceptance criteria.
    pub criteria: Vec<Criterion>,
    /// How many findings were dropped because their location does not exist, or because there were too many.
    pub dropped: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviewAnswer {
    verdict: ReviewVerdict,
    #[serde(default)]
    findings: Vec<Value>,
    #[serde(default)]
    criteria: Vec<Criterion>,
}

/// The whole answer.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct ReviewForm {
    /// Whether the work can land.
    verdict: ReviewVerdict,
    /// What is wrong with it; empty when nothing is.
    findings: Vec<ReviewFinding>,
    /// How each acceptance criterion stands.
    criteria: Vec<Criterion>,
}

/// Returns the JSON schema of the answer, for the reviewer.
pub fn schema() -> Value {
    json!(schemars::schema_for!(ReviewForm))
}

/// Returns how many lines a file has in the commit that was reviewed; `None` when the file does not exist.
pub type LineCount<'a> = dyn FnMut(&str) -> Option<u64> + 'a;

impl Review {
    /// Reads the review in an answer, or returns all its faults.
    pub fn read(said: &str, lines: &mut LineCount<'_>) -> Result<Self, Vec<String>> {
        let Some(text) = last_object(said, "verdict") else {
            return Err(vec![
                "there is no JSON object with a `verdict` in the answer".to_owned(),
            ]);
        };
        let answer: ReviewAnswer = serde_json::from_str(text)
            .map_err(|error| vec![format!("the review cannot be read: {error}")])?;
        let mut faults = Vec::new();
        let mut findings = Vec::new();
        for (place, value) in answer.findings.into_iter().enumerate() {
            let read = ReviewFinding::deserialize(&value).map_err(|error| error.to_string());
            match read.and_then(|finding| check_finding(&finding).map(|()| finding)) {
                Ok(finding) => findings.push(finding),
                Err(why) => faults.push(format!("finding {}: {why}", place + 1)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let told = findings.len();
        let mut counts: BTreeMap<String, Option<u64>> = BTreeMap::new();
        findings.retain(|finding| {
            let Some(path) = &finding.path else {
                return true;
            };
            let count = counts.entry(path.clone()).or_insert_with(|| lines(path));
            match (*count, finding.line) {
                (None, _) | (_, Some(0)) => false,
                (Some(_), None) => true,
                (Some(count), Some(line)) => line <= count,
            }
        });
        findings.sort_by_key(|finding| finding.severity);
        findings.truncate(MOST_FINDINGS);
        Ok(Self {
            verdict: answer.verdict,
            dropped: told - findings.len(),
            findings,
            criteria: answer.criteria,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str) -> Option<u64> {
        (path == "src/a.rs").then_some(10)
    }

    fn read(said: &str) -> Result<Review, Vec<String>> {
        Review::read(said, &mut |path| lines(path))
    }

    fn to_fix(review: &Review) -> usize {
        let findings = review.findings.iter();
        findings
            .filter(|finding| finding.severity.needs_fix())
            .count()
    }

    fn finding(severity: &str, path: &str, line: u64) -> String {
        format!(r#"{{"severity":"{severity}","path":"{path}","line":{line},"claim":"wrong"}}"#)
    }

    #[test]
    fn finding_without_a_place_in_the_commit_is_dropped_and_counted() {
        let said = format!(
            "I looked.\n```json\n{{\"verdict\":\"changes\",\"findings\":[{},{},{},{},{}],\"criteria\":[]}}\n```",
            finding("nit", "src/a.rs", 10),
            finding("blocker", "src/a.rs", 1),
            finding("major", "src/a.rs", 11),
            finding("major", "src/b.rs", 1),
            finding("major", "src/a.rs", 0),
        );
        let review = read(&said).unwrap();
        assert_eq!(review.verdict, ReviewVerdict::Changes);
        assert_eq!(review.dropped, 3);
        let places: Vec<String> = review.findings.iter().map(ReviewFinding::place).collect();
        assert_eq!(places, ["src/a.rs:1", "src/a.rs:10"], "the worst first");
        assert_eq!(to_fix(&review), 1);
    }

    #[test]
    fn what_is_no_review_is_told_in_words() {
        for (said, why) in [
            ("looks fine to me", "no JSON object with a `verdict`"),
            (r#"{"verdict":"fine"}"#, "unknown variant `fine`"),
            (
                r#"{"verdict":"accept","findings":[{"severity":"bad","claim":"x"}]}"#,
                "finding 1: unknown variant `bad`",
            ),
            (
                r#"{"verdict":"accept","findings":[{"severity":"nit","claim":" "}]}"#,
                "finding 1: the claim of a finding is empty",
            ),
            (
                r#"{"verdict":"accept","findings":[{"severity":"nit","claim":"x","line":3}]}"#,
                "needs a path",
            ),
            (r#"{"verdict":"accept","approve":true}"#, "unknown field"),
        ] {
            let faults = read(said).unwrap_err().join("; ");
            assert!(faults.contains(why), "{said}: {faults}");
        }
    }

    #[test]
    fn review_without_findings_accepts() {
        let review = read(r#"{"verdict":"accept"}"#).unwrap();
        assert_eq!(review.findings, []);
        assert_eq!(review.dropped, 0);
    }

    #[test]
    fn too_many_findings_lose_the_least_severe() {
        let many: Vec<String> = (0..150)
            .map(|number| {
                let severity = if number < 120 { "nit" } else { "blocker" };
                finding(severity, "src/a.rs", 1)
            })
            .collect();
        let said = format!(r#"{{"verdict":"changes","findings":[{}]}}"#, many.join(","));
        let review = read(&said).unwrap();
        assert_eq!(review.findings.len(), MOST_FINDINGS);
        assert_eq!(to_fix(&review), 30);
        assert_eq!(review.dropped, 50);
    }
}
