//! Listening for one worker, in the file store.

use std::time::Duration;

use teamster_journal::EventActor;
use teamster_store::{Listen, ReadStore, Store, StoreErrorKind};
use teamster_testkit::wait::stays_so;

use super::FileTeam;

/// Waits without a message until the listener polls less often.
fn get_used_to_quiet(listener: &mut dyn Listen) {
    stays_so("there is no signal", Duration::from_millis(2_500), || {
        listener.poll().unwrap().signals.is_empty()
    });
}

#[test]
fn a_signal_of_another_program_is_heard_after_a_long_quiet() {
    let crew = FileTeam::new("heard");
    std::fs::create_dir_all(crew.in_team("signals")).unwrap();
    let worker = "ada".parse().unwrap();
    let mut listener = crew.store.listen(&crew.team, &worker).unwrap();
    get_used_to_quiet(&mut *listener);
    std::fs::write(crew.in_team("signals/ada.shutdown"), "now!").unwrap();
    // It is reported as long as it is there, and not only once.
    for _ in 0..2 {
        let heard = listener.poll().unwrap().signals;
        assert_eq!(heard.len(), 1);
        assert!(!heard[0].drain);
    }
    std::fs::write(
        crew.in_team("signals/ada.shutdown"),
        r#"{"requestId":"r2","reason":"","timestamp":"2026-01-01T00:00:00Z"}"#,
    )
    .unwrap();
    assert_eq!(listener.poll().unwrap().signals[0].request_id, "r2");
    std::fs::remove_file(crew.in_team("signals/ada.shutdown")).unwrap();
    assert_eq!(listener.poll().unwrap().signals, []);
}

#[test]
fn a_folder_for_signals_that_comes_late_is_seen() {
    let crew = FileTeam::new("late-signals");
    let _ = std::fs::remove_dir_all(crew.in_team("signals"));
    let worker = "ada".parse().unwrap();
    let mut listener = crew.store.listen(&crew.team, &worker).unwrap();
    get_used_to_quiet(&mut *listener);
    std::fs::create_dir(crew.in_team("signals")).unwrap();
    std::fs::write(crew.in_team("signals/ada.drain"), "{}").unwrap();
    assert!(listener.poll().unwrap().signals[0].drain);
}

#[test]
fn a_signal_that_cannot_be_read_makes_nobody_deaf() {
    let crew = FileTeam::new("deaf");
    let worker = "ada".parse().unwrap();
    let mut listener = crew.store.listen(&crew.team, &worker).unwrap();
    std::fs::create_dir_all(crew.in_team("signals")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", crew.in_team("signals/ada.shutdown")).unwrap();
    let before = listener.poll().unwrap();
    assert_eq!(before.signals, []);
    crew.create("first");
    assert_ne!(listener.poll().unwrap().pulse, before.pulse);
}

#[test]
fn a_team_that_goes_is_missed_and_one_that_comes_in_its_place_is_heard() {
    let crew = FileTeam::new("gone");
    let worker = "ada".parse().unwrap();
    let mut listener = crew.store.listen(&crew.team, &worker).unwrap();
    let config = crew.store.team(&crew.team).unwrap();
    listener.poll().unwrap();
    crew.store
        .delete_team(&crew.team, &EventActor::Person, true)
        .unwrap();
    assert_eq!(listener.poll().unwrap_err().kind, StoreErrorKind::NotFound);
    let again = teamster_types::team::NewTeam {
        name: crew.team.clone(),
        description: String::new(),
        project: config.project().unwrap_or_default().to_owned(),
        members: Vec::new(),
        run: None,
    };
    crew.store.create_team(&again, None).unwrap();
    let before = listener.poll().unwrap();
    crew.create("first");
    assert_ne!(listener.poll().unwrap().pulse, before.pulse);
}
