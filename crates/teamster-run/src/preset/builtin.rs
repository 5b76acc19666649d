//! The presets that teamster comes with: files like any other.

use std::path::Path;

use super::{Agents, Preset};

const FILES: [(&str, &str); 4] = [
    ("bugfix.md", include_str!("../../presets/bugfix.md")),
    ("devops.md", include_str!("../../presets/devops.md")),
    (
        "dev-backend.md",
        include_str!("../../presets/dev-backend.md"),
    ),
    (
        "dev-frontend.md",
        include_str!("../../presets/dev-frontend.md"),
    ),
];

/// All of them. A test reads each, so none is missing.
pub fn builtin() -> Vec<Preset> {
    let agents = Agents::default();
    FILES
        .iter()
        .filter_map(|(file, text)| Preset::parse(Path::new(file), text, &agents).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_is_read_and_has_the_keywords_that_were_promised() {
        let agents = Agents::default();
        let mut seen = Vec::new();
        for (file, text) in FILES {
            let preset = Preset::parse(Path::new(file), text, &agents).unwrap();
            assert_eq!(format!("{}.md", preset.name), file);
            seen.push(format!("{}: {}", preset.name, preset.keywords.join(", ")));
        }
        assert_eq!(builtin().len(), FILES.len());
        insta::assert_snapshot!(seen.join("\n"), @r"
        bugfix: error, exception, NPE, bug, 에러, 버그, 장애
        devops: k8s, resource, deploy, helm, 리소스, 배포
        dev-backend: api, endpoint, service, controller, backend
        dev-frontend: component, UI, 컴포넌트, 페이지, responsive, frontend
        ");
    }
}
