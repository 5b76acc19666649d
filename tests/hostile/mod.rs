//! The findings of attacks on the built binary: one module for each class of defects.

mod checks;
mod clocks_and_versions;
mod decisions;
mod full_disks;
mod gate_input;
mod histories;
mod housekeeping;
mod isolation;
mod journals;
mod landing;
mod large_files;
mod limits;
mod long_inboxes;
mod merge_train;
mod replaced_objects;
mod repositories;
mod secrets;
mod security_document;
mod sentences;
mod signals;
mod trust;
mod versions;
mod worker;
mod worker_results;

use crate::run::Shop;

/// The variable that names a file with the clock offset in milliseconds, in test builds.
const CLOCK_OFFSET: &str = "TEAMSTER_TEST_CLOCK_OFFSET";
/// The branch that the tasks of a shop's team are merged into.
const INTEGRATION: &str = "refs/heads/omc-team/shop/integration";

/// Adds a filter for `*.big` that fails in `folders` while there is a file `fail` beside the project.
fn add_filter(shop: &Shop, folders: &str) {
    let fail = shop.aside().join("fail");
    let smudge = format!(
        "case \"$PWD\" in {folders}) test ! -e {} || exit 1;; esac; cat",
        fail.display()
    );
    shop.git(&["config", "filter.big.smudge", &smudge]);
    shop.git(&["config", "filter.big.clean", "cat"]);
    shop.git(&["config", "filter.big.required", "true"]);
    shop.project.write(".gitattributes", "*.big filter=big\n");
    shop.git(&["add", ".gitattributes"]);
    let commit = ["commit", "--quiet", "--message", "Filter", "--"];
    shop.git(&[commit.as_slice(), &[".gitattributes"]].concat());
    std::fs::write(fail, "").unwrap();
}
