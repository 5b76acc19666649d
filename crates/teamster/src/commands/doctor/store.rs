//! Checks of the store that teams are kept in.

use teamster_app::stores;

use super::DoctorCheck;
use crate::context::Context;

const NAME: &str = "store";

/// Checks the configured store. The file store has its own checks.
pub(super) fn check(context: &Context) -> DoctorCheck {
    let store = match context.choose_store() {
        Ok(store) => store,
        Err(error) => return DoctorCheck::from_error(NAME, &error),
    };
    if store.database().is_none() {
        return DoctorCheck::fine(NAME, "teams are kept in files");
    }
    let report = stores::inspect(context, &store);
    if let Some(error) = &report.problem {
        return DoctorCheck::from_error(NAME, error);
    }
    let version = report.server.as_ref().map_or("", |server| &*server.server);
    let found = format!("{}, PostgreSQL {version}", store.address());
    if report.server.is_some_and(|server| !server.wakes) {
        let detail = format!("{found}; LISTEN does not work, so changes are polled every second");
        return DoctorCheck::wrong(
            NAME,
            detail,
            "a pooler in transaction mode blocks notifications; everything else works",
        )
        .optional();
    }
    DoctorCheck::fine(NAME, format!("{found}; LISTEN works"))
}
