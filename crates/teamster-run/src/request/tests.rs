use proptest::prelude::*;

use super::*;

fn parsed(words: &[&str]) -> Request {
    Request::parse(words).unwrap()
}

fn refusal(words: &[&str]) -> String {
    Request::parse(words).unwrap_err().to_string()
}

#[test]
fn a_crew_is_numbered_through() {
    let request = parsed(&["2:codex:reviewer,1:claude", "fix all type errors"]);
    let crew = request.crew.unwrap();
    assert_eq!(crew.size(), 3);
    assert_eq!(crew.to_string(), "2:codex:reviewer,1:claude");
    let members: Vec<String> = crew
        .members()
        .iter()
        .map(|member| {
            let role = member.role.as_deref().unwrap_or("-");
            format!("{} {} {role}", member.name, member.agent)
        })
        .collect();
    assert_eq!(
        members,
        [
            "worker-1 codex reviewer",
            "worker-2 codex reviewer",
            "worker-3 claude -"
        ]
    );
    assert_eq!(request.task, "fix all type errors");
}

#[test]
fn a_sentence_stays_whole_and_is_not_taken_for_a_crew() {
    for (words, task) in [
        (
            &["fix the form and test it"][..],
            "fix the form and test it",
        ),
        (&["fix", "the", "form"], "fix the form"),
        (&["2:30 is shown as 14:30"], "2:30 is shown as 14:30"),
        (
            &["note: 3:executor is a word"],
            "note: 3:executor is a word",
        ),
        (
            &["로그인 폼을 고치고 테스트해줘"],
            "로그인 폼을 고치고 테스트해줘",
        ),
    ] {
        let request = parsed(words);
        assert_eq!((request.crew, request.task.as_str()), (None, task));
    }
    // A slash command passes everything as one text.
    let request = parsed(&["3:executor fix all type errors"]);
    assert_eq!(request.crew.unwrap().to_string(), "3:executor");
    assert_eq!(request.task, "fix all type errors");
}

#[test]
fn crew_parted_by_spaces_is_refused_with_the_comma_form() {
    for words in [
        &["2:codex", "1:gemini", "fix it"][..],
        &["2:codex", "1:gemini fix it"],
        &["2:codex 1:gemini fix it"],
        &["2:codex", "1:gemini"],
    ] {
        let refused = refusal(words);
        assert!(refused.contains("write 2:codex,1:gemini,"), "{refused}");
    }
    let three = refusal(&["2:codex", "1:gemini:tester", "1:claude", "go"]);
    assert!(
        three.contains("2:codex,1:gemini:tester,1:claude"),
        "{three}"
    );
    // A sentence may contain a time, and a request without a crew may begin with anything.
    let request = parsed(&["2:codex", "2:30 is shown as 14:30"]);
    assert_eq!(request.task, "2:30 is shown as 14:30");
}

#[test]
fn agents_that_carry_what_they_run_take_it_as_it_is() {
    let request = parsed(&["1:command:make fix,2:scripted:a/b:c.toml", "go"]);
    let crew = request.crew.unwrap();
    assert_eq!(crew.groups[0].agent, "command:make fix");
    assert_eq!(crew.groups[1].agent, "scripted:a/b:c.toml");
    assert_eq!(crew.groups[1].role, None);
    for (text, agents) in [
        ("1:command:cut -d, -f1", &["command:cut -d, -f1"][..]),
        ("1:command:echo a,b,2:codex", &["command:echo a,b", "codex"]),
        (
            "2:codex, 1:scripted:a,1.toml",
            &["codex", "scripted:a,1.toml"],
        ),
    ] {
        let crew: Crew = text.parse().unwrap();
        let read: Vec<&str> = crew.groups.iter().map(|one| one.agent.as_str()).collect();
        assert_eq!(read, agents, "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let long = "x".repeat(DESCRIPTION_LIMIT + 1);
    let said: Vec<String> = [
        &["3:executor"][..],
        &[],
        &["  "],
        &["0:executor", "go"],
        &["3:executor,", "go"],
        &["3:executor,codex", "go"],
        &["3:executor:", "go"],
        &["3:executor:a:b", "go"],
        &["1:command", "go"],
        &["1:x/y", "go"],
        &["101:executor", "go"],
        &["60:executor,60:codex", "go"],
        &["99999999999999999999:executor", "go"],
        &["go", &long],
    ]
    .iter()
    .map(|words| refusal(words))
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    no task given; write it after the team
    no task given; write it after the team
    no task given; write it after the team
    "0:executor" is not a valid part of a team: there must be at least one
    "" is not a valid part of a team: write N:agent or N:agent:role, such as 3:executor
    "codex" is not a valid part of a team: write N:agent or N:agent:role, such as 3:executor
    "3:executor:" is not a valid part of a team: "" is not a valid role: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    "3:executor:a:b" is not a valid part of a team: "a:b" is not a valid role: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    "1:command" is not a valid part of a team: `command` needs something after its colon
    "1:x/y" is not a valid part of a team: "x/y" is not a valid agent: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    101 workers were asked for; the limit is 100
    120 workers were asked for; the limit is 100
    4294967295 workers were asked for; the limit is 100
    the task has 10004 characters; the limit is 10000: put the rest into a file of the project, and name it
    "#);
}

fn groups() -> impl Strategy<Value = CrewGroup> {
    let word = "[A-Za-z][A-Za-z0-9_-]{0,10}".prop_filter("carries an argument", |word| {
        !WITH_ARGUMENT.contains(&word.as_str())
    });
    (1_u32..=10, word, proptest::option::of("[a-z][a-z-]{0,8}"))
        .prop_map(|(count, agent, role)| CrewGroup { count, agent, role })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(groups in proptest::collection::vec(groups(), 1..5)) {
        let crew = Crew { groups };
        let read: Crew = crew.to_string().parse().unwrap();
        prop_assert_eq!(&read, &crew);
        prop_assert_eq!(read.members().len(), usize::try_from(crew.size()).unwrap());
    }

    #[test]
    fn no_words_make_it_panic_and_no_word_of_a_task_is_lost(words in proptest::collection::vec("[ 0-9:,a-c가]{0,12}", 0..4)) {
        match Request::parse(&words) {
            Ok(Request { crew: None, task }) => {
                let said = words.join(" ");
                prop_assert_eq!(task, said.trim());
            }
            Ok(Request { crew: Some(crew), task }) => {
                prop_assert!(!task.is_empty());
                prop_assert!((1..=MOST_WORKERS).contains(&crew.size()));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
