//! Control groups (cgroup v2): every process that a member starts joins the group, and one write kills all of them.
//! Without permission to create a group there is none, and the caller has to find the descendant processes itself.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A control group that teamster created.
#[derive(Debug)]
pub struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Creates a group below the one this process is in; `None` where that is not permitted or not supported.
    pub fn make(name: &str) -> Option<Self> {
        let (mount, own) = current_group()?;
        Self::make_at(mount, own, name)
    }

    /// Returns the existing group `name`, created earlier, below the one this process is in.
    pub fn find(name: &str) -> Option<Self> {
        let (mount, own) = current_group()?;
        let folder = place(mount, own, name)?;
        folder.is_dir().then_some(Self { folder })
    }

    fn make_at(mount: &Path, own: &str, name: &str) -> Option<Self> {
        let folder = place(mount, own, name)?;
        std::fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        // Kernels without this file cannot kill a group at once, which is the only purpose of the group.
        if group.folder.join("cgroup.kill").exists() {
            Some(group)
        } else {
            group.remove();
            None
        }
    }

    /// Moves a process into the group. Children that it has already started stay where they are.
    pub fn add(&self, pid: u32) -> bool {
        std::fs::write(self.folder.join("cgroup.procs"), pid.to_string()).is_ok()
    }

    /// Moves a process out of this group into its parent group.
    pub fn release(&self, pid: u32) -> bool {
        let around = self.folder.parent();
        around.is_some_and(|around| {
            std::fs::write(around.join("cgroup.procs"), pid.to_string()).is_ok()
        })
    }

    /// Returns the pids of the group's members.
    pub fn members(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills every member, including those that are forked meanwhile.
    pub fn kill(&self) -> bool {
        std::fs::write(self.folder.join("cgroup.kill"), "1").is_ok()
    }

    /// Removes the group if it is empty, and returns whether it was removed.
    pub fn remove(&self) -> bool {
        std::fs::remove_dir(&self.folder).is_ok()
    }
}

/// Returns where cgroup v2 is mounted and which group this process is in. Both are looked up once: while another thread
/// starts a program in a group, this process is in that group for a moment, and must not be taken to belong to it.
fn current_group() -> Option<(&'static Path, &'static str)> {
    static HERE: OnceLock<Option<(PathBuf, String)>> = OnceLock::new();
    let here = HERE.get_or_init(|| {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        Some((unified(&mounts)?, own_group(&own)?.to_owned()))
    });
    here.as_ref()
        .map(|(mount, own)| (mount.as_path(), own.as_str()))
}

fn place(mount: &Path, own: &str, name: &str) -> Option<PathBuf> {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_plain && !name.is_empty()).then(|| mount.join(own.trim_start_matches('/')).join(name))
}

/// Returns the mount point of cgroup v2, which need not be `/sys/fs/cgroup`.
fn unified(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next()?;
        let mut fields = before.split(' ').skip(3);
        // Only a mount of the whole hierarchy counts: below a partial mount the path of this process's group would
        // differ.
        let root = fields.next()?;
        let point = fields.next()?;
        (kind == "cgroup2" && root == "/").then(|| PathBuf::from(unescaped(point)))
    })
}

/// Undoes the escapes of a mount point, in which a space is written as `\040`, and so on.
fn unescaped(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Returns the group that this process is in.
fn own_group(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_where_it_is() {
        let hybrid = "24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      30 24 0:26 / /sys/fs/cgroup/my\\040unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            unified(hybrid),
            Some(PathBuf::from("/sys/fs/cgroup/my unified"))
        );
        let part = "30 24 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(unified(part), None, "our own group would lie elsewhere");
        assert_eq!(own_group("3:cpu:/\n0::/a/b\n"), Some("/a/b"));
        assert_eq!(own_group("3:cpu:/\n"), None);
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let mount = Path::new("/m");
        assert_eq!(place(mount, "/a", "x-1"), Some(PathBuf::from("/m/a/x-1")));
        for name in ["", "..", "a/b", "a.b"] {
            assert_eq!(place(mount, "/", name), None, "{name}");
        }
    }
}
