//! Sessions that made room for a later one. Nothing of them is thrown away.

use teamster_fs::{Lock, layout};

use crate::{Party, Result};

impl Party {
    /// Whether a session of this id was put aside.
    pub(crate) fn is_archived(&self, id: &str) -> Result<bool> {
        let Some(archive) = self.dir.child(layout::PARTY_ARCHIVE)? else {
            return Ok(false);
        };
        Ok(archive.stamp(id)?.is_some())
    }

    /// Puts the session aside with its findings, tickets and approvals.
    ///
    /// The session's own file goes last: whoever is killed before that leaves a session that is still there and is put
    /// aside again, into the same folder.
    pub(crate) fn put_aside(&self, _held: &Lock, id: &str) -> Result<()> {
        // A file that somebody wrote by hand may have any id; it names no folder then.
        let is_plain = !id.is_empty()
            && !id.starts_with('.')
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let unnamed = format!("unnamed-{}", teamster_fs::random_hex());
        let archive = self.folder(layout::PARTY_ARCHIVE)?;
        let place = archive.child_or_create(if is_plain { id } else { &unnamed })?;
        for name in [layout::FINDINGS, layout::TICKETS, layout::APPROVALS] {
            if self.dir.stamp(name)?.is_some() {
                self.dir.rename_new(name, &place, name)?;
            }
            self.dir.child_or_create(name)?;
        }
        if self.dir.stamp(layout::SESSION)?.is_some() {
            self.dir.rename(layout::SESSION, &place, layout::SESSION)?;
        }
        Ok(())
    }
}
