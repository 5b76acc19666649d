//! What the project itself says: the feature it works on, the phase, and whether states are wanted at all.

use serde_json::Value;
use teamster_fs::layout::Layout;
use teamster_fs::{Dir, layout};

use crate::state::Phase;

/// The feature and its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdca {
    /// `primaryFeature`
    pub feature: String,
    /// Its phase; `None` when the file says none.
    pub phase: Option<Phase>,
}

/// Reads the PDCA status of the project; `None` when it has none.
pub fn pdca(layout: &Layout) -> Option<Pdca> {
    let project = Dir::open_root(&layout.project).ok()??;
    let (bytes, _) = layout::PDCA_STATUS
        .iter()
        .find_map(|(folders, name)| match folders {
            [] => project.read(name).ok()?,
            [first, rest @ ..] => {
                let mut folder = project.child(first).ok()??;
                for name in rest {
                    folder = folder.child(name).ok()??;
                }
                folder.read(name).ok()?
            }
        })?;
    let status: Value = serde_json::from_slice(&bytes).ok()?;
    let feature = status.get("primaryFeature")?.as_str()?.to_owned();
    let phase = status
        .get("features")
        .and_then(|features| features.get(&feature)?.get("phase")?.as_str())
        .map(Phase::nearest);
    Some(Pdca { feature, phase })
}

/// Whether `bkit.config.json` lets states be written. A project without one does.
pub fn team_is_enabled(layout: &Layout) -> bool {
    let says = || -> Option<bool> {
        let project = Dir::open_root(&layout.project).ok()??;
        let (bytes, _) = project.read(layout::BKIT_CONFIG).ok()??;
        let config: Value = serde_json::from_slice(&bytes).ok()?;
        config.get("team")?.get("enabled")?.as_bool()
    };
    says() != Some(false)
}
