use proptest::prelude::*;

use super::*;

fn text(node: &DocumentNode, key: &str) -> (usize, String) {
    let node = node.get(key).unwrap();
    match &node.value {
        DocumentValue::Text(text) => (node.line, text.clone()),
        other => panic!("{other:?}"),
    }
}

/// The tree without its lines.
fn bare(node: &DocumentNode) -> serde_json::Value {
    use serde_json::Value as Json;
    match &node.value {
        DocumentValue::Null => Json::Null,
        DocumentValue::Bool(answer) => Json::Bool(*answer),
        DocumentValue::Number(digits) => Json::String(format!("#{digits}")),
        DocumentValue::Text(text) => Json::String(text.clone()),
        DocumentValue::List(list) => list.iter().map(bare).collect(),
        DocumentValue::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, node)| (key.name.clone(), bare(node)))
                .collect(),
        ),
    }
}

#[test]
fn the_three_formats_say_the_same_and_know_their_lines() {
    let toml = "a = 'x'\n\n[b]\nc = [1, 'two']\nd = true\n";
    let yaml = "a: x\n\nb:\n  c: [1, 'two']\n  d: true\n";
    let json = "{\"a\": \"x\",\n\n \"b\": {\n  \"c\": [1, \"two\"],\n  \"d\": true}}";
    let trees = [
        (DocumentFormat::Toml, toml),
        (DocumentFormat::Yaml, yaml),
        (DocumentFormat::Json, json),
    ]
    .map(|(format, text)| parse(format, text).unwrap());
    for tree in &trees {
        assert_eq!(bare(tree), bare(&trees[0]));
        assert_eq!(text(tree, "a"), (1, "x".to_owned()));
        assert_eq!(tree.get("b").unwrap().get("c").unwrap().line, 4);
        assert_eq!(tree.get("b").unwrap().get("d").unwrap().line, 5);
    }
}

#[test]
fn what_could_mean_two_things_is_refused_where_it_stands() {
    for (format, text, line, said) in [
        (DocumentFormat::Toml, "a = 1\na = 2", 2, "not valid TOML"),
        (DocumentFormat::Toml, "\n\na = ", 3, "not valid TOML"),
        (DocumentFormat::Yaml, "a: 1\na: 2", 2, "`a` is there twice"),
        (DocumentFormat::Yaml, "a: &x 1\nb: *x", 1, "an anchor"),
        (DocumentFormat::Yaml, "a: !x 1", 1, "a tag"),
        (DocumentFormat::Yaml, "a: 1\n---\nb: 1", 2, "a second document"),
        (DocumentFormat::Yaml, "a:\n\t- b", 2, "not valid YAML"),
        (DocumentFormat::Yaml, "[a]: 1", 1, "a key must be a text"),
        (DocumentFormat::Json, "{\"a\":1,\n\"a\":2}", 2, "`a` is there twice"),
        (DocumentFormat::Json, "{\n\"a\":\n}", 3, "not valid JSON"),
    ] {
        let fault = parse(format, text).unwrap_err();
        assert!(fault.message.contains(said), "{text:?}: {fault:?}");
        assert_eq!(fault.line, line, "{text:?}: {fault:?}");
    }
    for format in [DocumentFormat::Yaml, DocumentFormat::Json, DocumentFormat::Toml] {
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        let text = match format {
            DocumentFormat::Toml => format!("a = {deep}"),
            _ => deep,
        };
        let said = parse(format, &text).unwrap_err().message;
        assert!(
            said.contains("nested") || said.contains("recursion"),
            "{said}"
        );
    }
}

#[test]
fn words_of_yaml_mean_what_its_present_version_says() {
    let tree = parse(DocumentFormat::Yaml, "[yes, 'true', 1.2.3, 1e3, ~, '', 007, 0x1]").unwrap();
    assert_eq!(
        bare(&tree).to_string(),
        r##"["yes","true","1.2.3","#1e3",null,"","#007","0x1"]"##
    );
}

#[test]
fn a_file_is_taken_by_its_name_and_else_by_how_it_begins() {
    for (file, text, format) in [
        ("p.toml", "", DocumentFormat::Toml),
        ("p.yml", "{", DocumentFormat::Yaml),
        ("-", " {\"a\":1}", DocumentFormat::Json),
        ("-", "# plan\n[[tasks]]", DocumentFormat::Toml),
        ("-", "verify = ['a: b']", DocumentFormat::Toml),
        ("-", "tasks:\n  - id: a", DocumentFormat::Yaml),
        ("-", "---\ntasks: []", DocumentFormat::Yaml),
    ] {
        assert_eq!(DocumentFormat::of(Path::new(file), text), format, "{text:?}");
    }
    let faults = parse_file(Path::new("p.toml"), b"a = 1\n\xff").unwrap_err();
    assert_eq!(faults.to_string(), "p.toml:2: this is not UTF-8 text");
    let tree = parse_file(Path::new("p.toml"), "\u{feff}a = 'x'".as_bytes()).unwrap();
    assert_eq!(text(&tree, "a").1, "x");
}

/// Any tree that JSON can hold, without two keys alike.
fn trees() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as Json;
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i32>().prop_map(Json::from),
        ".{0,12}".prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            proptest::collection::btree_map(".{0,6}", inner, 0..5)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

/// The same with numbers as this reader keeps them.
fn marked(value: &serde_json::Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Json::Number(number) => Json::String(format!("#{number}")),
        Json::Array(list) => list.iter().map(marked).collect(),
        Json::Object(map) => Json::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), marked(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn json_is_read_as_serde_reads_it(value in trees(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let tree = parse(DocumentFormat::Json, &text).unwrap();
        prop_assert_eq!(bare(&tree), marked(&value));
        prop_assert!(last_line(&tree) <= text.lines().count().max(1));
    }

    #[test]
    fn nothing_that_anybody_writes_makes_a_reader_panic(text in "[ \\-:,\\[\\]{}\"'#&*!|>a-c0-9=\\n\\t\\\\가]{0,80}") {
        for format in [DocumentFormat::Toml, DocumentFormat::Yaml, DocumentFormat::Json] {
            if let Err(fault) = parse(format, &text) {
                prop_assert!(fault.line >= 1 && fault.line <= text.split('\n').count() + 1, "{:?}", fault);
            }
        }
    }
}

fn last_line(node: &DocumentNode) -> usize {
    let inner = match &node.value {
        DocumentValue::List(list) => list.iter().map(last_line).max(),
        DocumentValue::Map(entries) => entries.iter().map(|(_, node)| last_line(node)).max(),
        _ => None,
    };
    inner.unwrap_or(0).max(node.line)
}
