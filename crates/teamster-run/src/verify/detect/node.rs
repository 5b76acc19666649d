//! Finds the checks of a Node.js project by its `package.json`.

use serde_json::Value;

use super::Detector;

const FILE: &str = "package.json";

/// The lock files and their package managers. The first one that exists decides.
const LOCKS: [(&str, PackageManager); 6] = [
    ("pnpm-lock.yaml", PackageManager::Pnpm),
    ("yarn.lock", PackageManager::Yarn),
    ("bun.lock", PackageManager::Bun),
    ("bun.lockb", PackageManager::Bun),
    ("package-lock.json", PackageManager::Npm),
    ("npm-shrinkwrap.json", PackageManager::Npm),
];

/// The package manager that installs the project's packages, and so runs its scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PackageManager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

impl PackageManager {
    fn program(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }

    /// Returns the command that runs the compiler of an installed package, and never downloads one.
    fn typescript(self) -> &'static str {
        match self {
            Self::Npm => "npm exec --no -- tsc --noEmit",
            Self::Pnpm => "pnpm exec tsc --noEmit",
            Self::Yarn => "yarn run tsc --noEmit",
            Self::Bun => "bun run tsc --noEmit",
        }
    }
}

pub(super) fn search(search: &mut Detector<'_>) {
    let Some(text) = search.text(FILE) else {
        return;
    };
    let package: Value = match serde_json::from_str(&text) {
        Ok(package @ Value::Object(_)) => package,
        Ok(_) => return search.skip(FILE, "it is not a JSON object"),
        Err(error) => return search.skip(FILE, format!("it is not JSON: {error}")),
    };
    let manager = manager(search, &package);
    let script = |name: &str| {
        let script = package.get("scripts")?.get(name)?.as_str()?.trim();
        (!script.is_empty()).then(|| script.to_owned())
    };
    for name in ["test", "lint", "typecheck"] {
        match script(name) {
            // The script that `npm init` writes always fails, and says nothing about the project.
            Some(text) if name == "test" && text.contains("no test specified") => {}
            Some(_) => search.add(
                manager.program(),
                format!("{} run {name}", manager.program()),
                format!("{FILE}, script `{name}`"),
            ),
            None if name == "typecheck" => typescript(search, &package, manager),
            None => {}
        }
    }
}

/// Adds the compiler itself, where no script calls it.
fn typescript(search: &mut Detector<'_>, package: &Value, manager: PackageManager) {
    const SETTINGS: &str = "tsconfig.json";
    if !search.has(SETTINGS) {
        return;
    }
    let is_dependency = ["dependencies", "devDependencies"].iter().any(|list| {
        package
            .get(list)
            .and_then(|list| list.get("typescript"))
            .is_some()
    });
    if is_dependency {
        search.add(manager.program(), manager.typescript(), SETTINGS);
    } else {
        search.add("tsc", "tsc --noEmit", SETTINGS);
    }
}

fn manager(search: &mut Detector<'_>, package: &Value) -> PackageManager {
    let locks: Vec<PackageManager> = LOCKS
        .iter()
        .filter(|(lock, _)| search.has(lock))
        .map(|(_, manager)| *manager)
        .collect();
    // `"packageManager": "pnpm@9.1.0"`
    let named = package.get("packageManager").and_then(Value::as_str);
    let named = named.and_then(|named| {
        let program = named.split('@').next()?;
        [
            PackageManager::Npm,
            PackageManager::Pnpm,
            PackageManager::Yarn,
            PackageManager::Bun,
        ]
        .into_iter()
        .find(|manager| manager.program() == program)
    });
    match (locks.first(), named) {
        // With several lock files, the `packageManager` of the project decides.
        (Some(_), Some(named)) if locks.contains(&named) => named,
        (Some(first), _) => *first,
        (None, Some(named)) => named,
        (None, None) => PackageManager::Npm,
    }
}
