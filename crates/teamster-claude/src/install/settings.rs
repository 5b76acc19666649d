//! The settings file itself: found, locked, read, checked, replaced.

use std::path::{Path, PathBuf};

use teamster_fs::layout::PROJECT_CLAUDE;
use teamster_fs::{Dir, FileOwner, FileSnapshot, FsError, UserFile};
use teamster_store::{StoreError, StoreErrorKind};
use teamster_types::shell;

use super::merge::{self, SettingsFault};
use super::{InstallOutcome, InstallRequest, PATIENCE, Scope, backup, diff, hooks, project};

type Result<T> = std::result::Result<T, StoreError>;

const TAKE_OUT: &str = "take out every hook whose command is `teamster hook …` by hand";

/// How often an edit is retried because another program wrote the settings meanwhile.
const TRIES: usize = 16;

/// Adds teamster's hooks to the settings of a scope. A repeated call changes nothing.
pub fn install(request: &InstallRequest<'_>) -> Result<InstallOutcome> {
    let path = request.scope.settings(request.layout);
    let events = hooks::events(request.light);
    let mut outcome = InstallOutcome {
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        settings: path.clone(),
        ..InstallOutcome::default()
    };
    let file = find(request, &path, !request.dry_run)?;
    let _lock = file.as_ref().map(lock_settings).transpose()?;
    for _ in 0..TRIES {
        let there = read(file.as_ref())?;
        let old = text_of(&path, there.as_ref())?;
        let new = merge::add_hooks(old.unwrap_or_default(), request.program, &events)
            .map_err(|unfit| refusal(&path, old.unwrap_or_default(), &unfit, request))?;
        add_remarks(request, file.as_ref(), &new, &mut outcome);
        if old == Some(new.as_str()) {
            return Ok(edit_project_files(request, outcome));
        }
        may_write(&path, file.as_ref(), there.as_ref(), || {
            add_by_hand(request)
        })?;
        verify_new_text(&path, &new, request, &events)?;
        outcome.diff = diff(&path.display().to_string(), old, Some(&new));
        let Some(file) = file.as_ref().filter(|_| !request.dry_run) else {
            outcome.backup = old.and_then(|_| backup::next(&path, request.now));
            return Ok(edit_project_files(request, outcome));
        };
        if let Some(was) = &there {
            outcome.backup = backup::keep(&path, &was.bytes, request.now)?;
        }
        file.sweep()?;
        if file.replace(there.as_ref(), new.as_bytes(), mode(request.scope))? {
            outcome.changed = true;
            return Ok(edit_project_files(request, outcome));
        }
    }
    Err(keeps_changing(&path))
}

/// Removes teamster's hooks from the settings of a scope: exactly these, and containers that were created for them.
pub fn uninstall(request: &InstallRequest<'_>) -> Result<InstallOutcome> {
    let path = request.scope.settings(request.layout);
    let mut outcome = InstallOutcome {
        settings: path.clone(),
        ..InstallOutcome::default()
    };
    let Some(file) = find(request, &path, false)? else {
        return Ok(restore_project_files(request, outcome));
    };
    let _lock = lock_settings(&file)?;
    for _ in 0..TRIES {
        let there = read(Some(&file))?;
        let (Some(was), Some(old)) = (&there, text_of(&path, there.as_ref())?) else {
            return Ok(restore_project_files(request, outcome));
        };
        let (without, events) =
            merge::remove_hooks(old).map_err(|unfit| by_hand(&path, old, &unfit))?;
        add_remarks(request, Some(&file), "", &mut outcome);
        if events.is_empty() {
            // An interrupted installation may have left them.
            for same in backup::all(&path)?.iter().filter(|one| one.is(old)) {
                if !request.dry_run {
                    same.remove()?;
                }
            }
            return Ok(restore_project_files(request, outcome));
        }
        outcome.events = events;
        may_write(&path, Some(&file), there.as_ref(), || TAKE_OUT.to_owned())?;
        let backups = backup::all(&path)?;
        let new = match backup::original(&backups, old) {
            Some(original) => Some(original.to_owned()),
            // Removing the file would leave a dangling link.
            None if file.is_link() => without.or_else(|| Some("{}\n".to_owned())),
            None => without,
        };
        outcome.diff = diff(&path.display().to_string(), Some(old), new.as_deref());
        if !request.dry_run {
            file.sweep()?;
            let done = match &new {
                Some(new) => file.replace(Some(was), new.as_bytes(), mode(request.scope))?,
                None => file.remove(was)?,
            };
            if !done {
                continue;
            }
            outcome.changed = true;
        }
        for backup in backups {
            if !backup.is_redundant(new.as_deref()) {
                outcome.kept_backups.push(backup.path);
            } else if !request.dry_run {
                backup.remove()?;
            }
        }
        return Ok(restore_project_files(request, outcome));
    }
    Err(keeps_changing(&path))
}

/// Returns whether teamster's hooks are in the settings of a scope, as far as these can be read.
pub fn is_installed(layout: &teamster_fs::layout::Layout, scope: Scope) -> bool {
    let file = UserFile::find(&scope.settings(layout));
    let was = file.ok().flatten().and_then(|file| file.read().ok()?);
    let text = was.and_then(|was| String::from_utf8(was.bytes).ok());
    text.is_some_and(|text| merge::installed(&text).is_ok_and(|ours| ours.is_some()))
}

/// Returns the settings file, creating its folder if requested.
fn find(request: &InstallRequest<'_>, path: &Path, make: bool) -> Result<Option<UserFile>> {
    if make {
        match request.scope {
            Scope::User => {
                Dir::open_or_create_root(&request.layout.claude)?;
            }
            Scope::Project | Scope::Local => {
                let project = Dir::open_root(&request.layout.project)?.ok_or_else(|| {
                    StoreError::not_found(format!(
                        "there is no folder {}",
                        request.layout.project.display()
                    ))
                })?;
                // A symbolic link here is judged by where the settings really are.
                if !request.layout.project.join(PROJECT_CLAUDE).is_dir() {
                    project.shared_child_or_create(PROJECT_CLAUDE)?;
                }
            }
        }
    }
    let file = UserFile::find(path).map_err(|error| cannot_find(path, error))?;
    let is_of_project = request.scope != Scope::User;
    if let Some(file) = &file
        && is_of_project
        && !is_inside(&file.path(), &request.layout.project)
    {
        return Err(StoreError::refused(format!(
            "{} leads out of the project, to {}",
            path.display(),
            file.path().display()
        ))
        .hint("`--scope user` is for the settings of all your projects; for this one, remove the link"));
    }
    Ok(file)
}

fn is_inside(file: &Path, project: &Path) -> bool {
    let real = file.parent().and_then(|folder| folder.canonicalize().ok());
    let project = project.canonicalize().ok();
    matches!((real, project), (Some(real), Some(project)) if real.starts_with(&project))
}

fn cannot_find(path: &Path, error: FsError) -> StoreError {
    if path.is_symlink() && !path.exists() {
        return StoreError::refused(format!(
            "{} is a link that leads to no file",
            path.display()
        ))
        .hint("make the file it should lead to (`{}` is enough), or remove the link");
    }
    error.into()
}

fn lock_settings(file: &UserFile) -> Result<teamster_fs::FolderLock<'_>> {
    file.lock(PATIENCE)?.ok_or_else(|| {
        StoreError::busy(format!(
            "another `teamster install` is changing {}",
            file.path().display()
        ))
    })
}

fn read(file: Option<&UserFile>) -> Result<Option<FileSnapshot>> {
    Ok(match file {
        Some(file) => file.read()?,
        None => None,
    })
}

fn text_of<'a>(path: &Path, was: Option<&'a FileSnapshot>) -> Result<Option<&'a str>> {
    let text = was.map(|was| std::str::from_utf8(&was.bytes)).transpose();
    text.map_err(|_| {
        StoreError::refused(format!(
            "{} is not UTF-8, so it is not edited",
            path.display()
        ))
        .hint("save it as UTF-8 and try again; nothing was changed")
    })
}

/// Fails if the settings should not be written; `by_hand` says what the user can do instead.
fn may_write(
    path: &Path,
    file: Option<&UserFile>,
    was: Option<&FileSnapshot>,
    by_hand: impl Fn() -> String,
) -> Result<()> {
    let (Some(file), Some(was)) = (file, was) else {
        return Ok(());
    };
    let real = file.path();
    if let (true, FileOwner::Other(uid)) = (file.is_link(), was.owner) {
        return Err(StoreError::refused(format!(
            "{} leads to {}, which belongs to another user (number {uid}), so it is not edited",
            path.display(),
            real.display()
        ))
        .hint(format!("let it lead to a file of yours, or {}", by_hand())));
    }
    let unreachable = |what: &str, hint: String| {
        let message = format!("{} {what}", real.display());
        StoreError::new(StoreErrorKind::Unreachable, message)
            .hint(format!("{hint}, or {}", by_hand()))
    };
    if !was.can_keep_owner() {
        let hint = "run this as its owner".to_owned();
        return Err(unreachable("belongs to another user", hint));
    }
    if was.is_read_only() {
        let real = shell::word(&real.display().to_string());
        let hint = format!("`chmod u+w {real}` lets it be written");
        return Err(unreachable("is read-only", hint));
    }
    Ok(())
}

/// Returns a hint for settings that are generated and cannot be edited here.
fn add_by_hand(request: &InstallRequest<'_>) -> String {
    let snippet = merge::snippet(request.program, &hooks::events(request.light));
    format!("add this by hand where it is generated:\n\n{snippet}")
}

/// Checks the new text before it is written: it is valid, and has each of teamster's entries once.
fn verify_new_text(
    path: &Path,
    new: &str,
    request: &InstallRequest<'_>,
    events: &[&str],
) -> Result<()> {
    let again = merge::add_hooks(new, request.program, events);
    if again.as_deref() == Ok(new) {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Failed,
        format!(
            "{} was not changed: the edited text failed the check",
            path.display()
        ),
    )
    .hint("this is a bug in teamster; please report it with the file"))
}

/// Returns the mode of a new settings file. One in a project is for everybody who works on it; the user's own may
/// contain secrets.
fn mode(scope: Scope) -> u32 {
    match scope {
        Scope::Project => 0o666,
        Scope::User | Scope::Local => 0o600,
    }
}

/// Adds remarks for the user to the outcome.
fn add_remarks(
    request: &InstallRequest<'_>,
    file: Option<&UserFile>,
    new: &str,
    outcome: &mut InstallOutcome,
) {
    outcome.remarks.clear();
    if let Some(file) = file.filter(|file| file.is_link()) {
        outcome.real = Some(file.path());
        outcome.remarks.push(format!(
            "{} is a link; the real file is {}",
            request.scope.settings(request.layout).display(),
            file.path().display()
        ));
    }
    if merge::are_hooks_off(new) {
        outcome.remarks.push(
            "these settings have `disableAllHooks`: no hook runs until that is taken out"
                .to_owned(),
        );
    }
}

fn edit_project_files(request: &InstallRequest<'_>, mut outcome: InstallOutcome) -> InstallOutcome {
    if request.scope != Scope::User {
        project::ignore_folders(request.layout, request.dry_run, &mut outcome);
        if outcome.backup.is_some() {
            project::exclude_backups(request.layout, request.dry_run, &mut outcome);
        }
    }
    outcome
}

fn restore_project_files(
    request: &InstallRequest<'_>,
    mut outcome: InstallOutcome,
) -> InstallOutcome {
    let other = match request.scope {
        Scope::User => return outcome,
        Scope::Project => Scope::Local,
        Scope::Local => Scope::Project,
    };
    if !is_installed(request.layout, other) {
        project::unignore_folders(request.layout, request.dry_run, &mut outcome);
        let none_left = |scope: Scope| {
            let backups = backup::all(&scope.settings(request.layout));
            backups.is_ok_and(|backups| backups.is_empty())
        };
        if none_left(Scope::Project) && none_left(Scope::Local) {
            project::unexclude_backups(request.layout, request.dry_run, &mut outcome);
        }
    }
    if outcome.changed
        && let Ok(Some(project)) = Dir::open_root(&request.layout.project)
    {
        // This removes only an empty folder, which git does not track.
        let _ = project.remove_dir(PROJECT_CLAUDE);
    }
    outcome
}

fn refusal(
    path: &Path,
    text: &str,
    unfit: &SettingsFault,
    request: &InstallRequest<'_>,
) -> StoreError {
    let snippet = merge::snippet(request.program, &hooks::events(request.light));
    StoreError::refused(format!(
        "{}, so it is not edited",
        describe_fault(path, text, unfit)
    ))
    .hint(format!(
        "correct that and try again, or add this to it by hand:\n\n{snippet}"
    ))
}

fn by_hand(path: &Path, text: &str, unfit: &SettingsFault) -> StoreError {
    StoreError::refused(format!(
        "{}, so it is not edited",
        describe_fault(path, text, unfit)
    ))
    .hint(format!("correct that and try again, or {TAKE_OUT}"))
}

fn describe_fault(path: &Path, text: &str, unfit: &SettingsFault) -> String {
    match unfit {
        SettingsFault::NotJson(fault) => {
            let (line, column) = fault.place(text);
            format!(
                "{} is not plain JSON (line {line}, column {column}: {})",
                path.display(),
                fault.what
            )
        }
        SettingsFault::Wrong { place, is, should } => format!(
            "in {} {place} is {is} and should be {should}",
            path.display()
        ),
    }
}

fn keeps_changing(path: &Path) -> StoreError {
    StoreError::busy(format!(
        "another program keeps writing {}",
        PathBuf::from(path).display()
    ))
}
