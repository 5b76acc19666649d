//! `pyproject.toml`. Not every Python project uses every tool, so one is taken only where the project shows it.

use super::Search;

const FILE: &str = "pyproject.toml";

pub(super) fn search(search: &mut Search<'_>) {
    let Some(text) = search.text(FILE) else {
        return;
    };
    let settings = match text.parse::<toml::Table>() {
        Ok(settings) => toml::Value::Table(settings),
        Err(error) => {
            search.skip(FILE, format!("it is not TOML: {}", error.message()));
            toml::Value::Table(toml::Table::new())
        }
    };
    let shows_pytest = mentions(&settings, "pytest")
        || search.has("pytest.ini")
        || search.has("conftest.py")
        || has_tests(search);
    if shows_pytest {
        search.add("pytest", "pytest", FILE);
    }
    let shows_ruff =
        mentions(&settings, "ruff") || search.has("ruff.toml") || search.has(".ruff.toml");
    if shows_ruff {
        search.add("ruff", "ruff check .", FILE);
    }
}

/// Whether a key is called so (`[tool.ruff]`), or a text begins so (`"ruff>=0.5"`).
fn mentions(value: &toml::Value, tool: &str) -> bool {
    match value {
        toml::Value::String(text) => text
            .strip_prefix(tool)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())),
        toml::Value::Array(items) => items.iter().any(|item| mentions(item, tool)),
        toml::Value::Table(table) => table
            .iter()
            .any(|(key, item)| key == tool || mentions(item, tool)),
        _ => false,
    }
}

/// Whether there is a file that pytest would take for a test, at the top or in a folder of tests.
fn has_tests(search: &Search<'_>) -> bool {
    let is_test = |name: &str| {
        name.strip_suffix(".py")
            .is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    let folders = ["tests", "test"].map(|name| search.folder(name));
    std::iter::once(search.dir)
        .chain(folders.iter().flatten())
        .filter_map(|folder| folder.entries().ok())
        .flatten()
        .any(|entry| is_test(&entry.name))
}
