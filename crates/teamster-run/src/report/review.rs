//! The reviews, for the gate and for the report.

use std::fmt::Write as _;

use teamster_journal::payload::{ReviewFinding, ReviewFinished, ReviewMode};
use teamster_journal::{ReviewOutcome, ReviewState};

use super::ReportInput;
use super::markdown::{code, code_cell, counted, inside, line, short, wrapped};

/// The number of findings that are shown at the gate.
const MOST_FINDINGS: usize = 40;

impl ReportInput {
    /// Returns the review of the commit that a person is asked about, or else the last review.
    fn review(&self) -> Option<&ReviewState> {
        let last = self.reviews.last()?;
        let asked = self.asked_about.as_deref().unwrap_or(&last.commit);
        self.reviews.iter().find(|review| review.commit == asked)
    }

    /// Returns whether the work was reviewed, in one sentence; `None` when no review was asked for and none was made.
    pub(super) fn review_words(&self) -> Option<String> {
        let not_reviewed = |why: &str| Some(format!("This work was NOT reviewed: {why}."));
        let is_required = self.review_mode == ReviewMode::Require;
        let Some(review) = self.review() else {
            let is_missed = self.asked_about.is_some() && is_required;
            return not_reviewed("no reviewer was asked about this commit").filter(|_| is_missed);
        };
        match &review.outcome {
            ReviewOutcome::Finished(finished) => {
                Some(finished_words(finished, review.since.as_deref()))
            }
            ReviewOutcome::Failed(why) => {
                not_reviewed(&format!("{} was asked, and {why}", review.reviewer))
            }
            ReviewOutcome::UnderWay => not_reviewed("the review is not over"),
            ReviewOutcome::Skipped(why) if is_required => not_reviewed(why.as_str()),
            ReviewOutcome::Skipped(why) => Some(format!("This work was not reviewed: {why}.")),
        }
    }
}

/// Returns the verdict and the number of findings in one sentence. `since` is the commit that was reviewed before.
fn finished_words(finished: &ReviewFinished, since: Option<&str>) -> String {
    let found = match finished.findings.len() {
        0 => "found nothing".to_owned(),
        count => format!("found {}", things(count)),
    };
    let since = match since {
        Some(since) => format!(" in what changed since {}", short(since)),
        None => String::new(),
    };
    let mut words = format!(
        "{} {} and {found}{since}",
        finished.reviewer,
        finished.verdict.words()
    );
    if finished.dropped > 0 {
        let _ = write!(
            words,
            "; {} dropped, because the place is not in the commit or there were too many",
            counted(finished.dropped, "finding")
        );
    }
    words + "."
}

fn things(count: usize) -> String {
    counted(count, "thing")
}

/// Returns the lines for the gate: the verdict, and the findings by severity, each with its line.
pub(super) fn gate_lines(input: &ReportInput) -> String {
    let Some(words) = input.review_words() else {
        return String::new();
    };
    let mut text = wrapped("  ", &words);
    let Some(finished) = input.review().and_then(ReviewState::finished) else {
        return text;
    };
    let left = input.review().map(|review| &review.dismissed);
    for (place, finding) in (1..).zip(finished.findings.iter().take(MOST_FINDINGS)) {
        let (first, mut rest) = finding_words(finding);
        if let Some(reason) = left.and_then(|left| left.get(&place)) {
            let _ = write!(rest, " (the leader decided not to fix it: {reason})");
        }
        text.push_str(&wrapped(&first, &rest));
    }
    if finished.findings.len() > MOST_FINDINGS {
        let _ = writeln!(text, "  … {} more", finished.findings.len() - MOST_FINDINGS);
    }
    text.push_str(&criteria(finished));
    text
}

/// Returns how many acceptance criteria are met, and which are not, with the evidence.
fn criteria(finished: &ReviewFinished) -> String {
    let all = finished.criteria.len();
    if all == 0 {
        return String::new();
    }
    let met = finished.criteria.iter().filter(|it| it.met).count();
    let mut text = match all {
        1 => format!("  {met} of 1 acceptance criterion met\n"),
        all => format!("  {met} of {all} acceptance criteria met\n"),
    };
    for unmet in finished.criteria.iter().filter(|criterion| !criterion.met) {
        let evidence = match unmet.evidence.trim() {
            "" => String::new(),
            evidence => format!(" ({})", line(evidence)),
        };
        let said = format!("{}{evidence}", unmet.criterion);
        text.push_str(&wrapped("  NOT met: ", &said));
    }
    text
}

/// Returns the severity of a finding, and its description with the location.
fn finding_words(finding: &ReviewFinding) -> (String, String) {
    let severity = format!("  {}: ", finding.severity.as_str());
    let words = match finding.place().as_str() {
        "" => finding.claim.clone(),
        place => format!("{place}: {}", finding.claim),
    };
    (severity, words)
}

/// Returns the section of the report with every review in order, and the findings of the last one in full.
pub(super) fn section(input: &ReportInput) -> String {
    let Some(words) = input.review_words() else {
        return String::new();
    };
    let mut page = format!("{}\n", inside(&words));
    let last = input.review().map(|review| review.commit.as_str());
    for review in input
        .reviews
        .iter()
        .filter(|it| Some(it.commit.as_str()) != last)
    {
        if let Some(finished) = review.finished() {
            let commit = code(&short(&review.commit));
            let _ = writeln!(
                page,
                "\nBefore, at {commit}: {}",
                inside(&finished_words(finished, review.since.as_deref()))
            );
        }
    }
    let Some(finished) = input.review().and_then(ReviewState::finished) else {
        return page;
    };
    if !finished.findings.is_empty() {
        page.push('\n');
    }
    let left = input.review().map(|review| &review.dismissed);
    for (number, finding) in (1..).zip(&finished.findings) {
        let place = match finding.place().as_str() {
            "" => String::new(),
            place => format!(" in {}", code_cell(place)),
        };
        let _ = writeln!(
            page,
            "- {}{place}: {}",
            finding.severity.as_str(),
            inside(&finding.claim)
        );
        for (heading, text) in [
            ("shown by", &finding.evidence),
            ("to do", &finding.suggestion),
        ] {
            if !text.trim().is_empty() {
                let _ = writeln!(page, "  - {heading}: {}", inside(text));
            }
        }
        if let Some(reason) = left.and_then(|left| left.get(&number)) {
            let _ = writeln!(
                page,
                "  - the leader decided not to fix it: {}",
                inside(reason)
            );
        }
    }
    if !finished.criteria.is_empty() {
        page.push('\n');
    }
    for criterion in &finished.criteria {
        let state = if criterion.met { "met" } else { "NOT met" };
        let evidence = match criterion.evidence.trim() {
            "" => String::new(),
            evidence => format!(" ({})", inside(evidence)),
        };
        let _ = writeln!(
            page,
            "- {state}: {}{evidence}",
            inside(&criterion.criterion)
        );
    }
    page
}
