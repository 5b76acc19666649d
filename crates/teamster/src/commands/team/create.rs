//! `teamster team create`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use teamster_app::env_vars;
use teamster_app::recordable;
use teamster_isolate::git::Git;
use teamster_types::TeamName;
use teamster_types::team::{NewMember, NewTeam};

use crate::context::Context;
use crate::error::{AppError, Result};

/// Make a team that works on this project
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster team create fix-login --members worker-1,worker-2
  teamster team create fix-login --description \"Accessible login\" --project .")]
pub struct Create {
    /// The team's name: 1 to 50 of a-z, 0-9 and `-`
    name: String,
    /// What the team is for
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    /// The project it works on [default: the one of the current folder]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Its first workers
    #[arg(long, value_name = "WORKERS", value_delimiter = ',')]
    members: Vec<String>,
}

impl Create {
    pub fn run(self, context: &Context) -> Result {
        let name: TeamName = self.name.parse()?;
        let mut members: Vec<NewMember> = Vec::new();
        for member in &self.members {
            let name = member.parse()?;
            if members.iter().any(|known| known.name == name) {
                return Err(AppError::refused(format!("{name} is named twice"))
                    .hint("each worker has a name of its own"));
            }
            members.push(NewMember {
                name,
                provider: String::new(),
                capabilities: None,
            });
        }
        let project = self.project_folder(context)?;
        let new = NewTeam {
            name,
            description: self.description,
            project: recordable(&project, "the project")?.to_owned(),
            members,
            run: None,
        };
        let base = head_commit(&project);
        let config = context.store()?.create_team(&new, base.as_deref())?;
        context.out.answer(
            || json!({ "team": config.as_object() }),
            || {
                let members: Vec<&str> = new.members.iter().map(|m| m.name.as_str()).collect();
                let with = match members.as_slice() {
                    [] => String::new(),
                    some => format!(" with {}", some.join(", ")),
                };
                format!("made team {} for {}{with}", new.name, new.project)
            },
        )
    }

    fn project_folder(&self, context: &Context) -> Result<PathBuf> {
        let Some(named) = &self.project else {
            return Ok(context.layout.project.clone());
        };
        let missing = || {
            AppError::not_found(format!("there is no folder {}", named.display()))
                .hint("--project takes the folder that the team works on")
        };
        let folder = context
            .absolute(named)
            .canonicalize()
            .map_err(|_| missing())?;
        if folder.is_dir() {
            Ok(folder)
        } else {
            Err(missing())
        }
    }
}

/// The commit that is checked out, from which the team's work starts. Without git or without a commit there is none.
fn head_commit(project: &Path) -> Option<String> {
    let git = Git::find(&env_vars::get(env_vars::PATH)?).ok()?;
    git.head(project).ok()?.map(|commit| commit.to_string())
}
